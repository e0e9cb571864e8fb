// Real Envoys answer random requests exactly as the policies say.
#include <random>
#include <regex>
#include <set>

#include "certificate/issuance.hpp"
#include "lib/free_ports.hpp"
#include "lib/run.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/runtime/system.hpp"
#include "translate/real_envoy.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

const ServiceIdentity kReader{"client", "reader"}, kWriter{"client", "writer"},
    kStranger{"client", "stranger"};

struct Request {
  ServiceIdentity from;
  std::string method, path;
  std::map<std::string, std::string> headers;

  std::string text() const {
    std::string out = method + ' ' + path + " HTTP/1.1\r\nHost: server.server\r\n";
    for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
    return out + "Connection: close\r\n\r\n";
  }
};

// ---- what the policies say, in as few words as possible

std::string without_query(const std::string& path) { return path.substr(0, path.find('?')); }

// True for paths that an application could read in another way than a policy.
bool odd(const std::string& path) {
  for (const char* part : {"//", "/./", "/../", "%2f", "%2F", "%5c", "%5C", "%2e", "%2E", "%61"})
    if (path.find(part) != path.npos) return true;
  return path.ends_with("/.") || path.ends_with("/..");
}

bool matches(const RoutePolicy& match, const Request& request, const std::string& path) {
  if (!std::regex_match(path, std::regex(match.path_regex))) return false;
  if (!match.methods.empty() &&
      std::count(match.methods.begin(), match.methods.end(), request.method) == 0)
    return false;
  for (const auto& [name, regex] : match.headers) {
    const auto at = request.headers.find(name);
    if (at == request.headers.end() || !std::regex_match(at->second, std::regex(regex)))
      return false;
  }
  return true;
}

int expected_status(const std::vector<InboundTrafficPolicy>& targets, const Request& request) {
  const std::string path = without_query(request.path);
  bool known = false;
  for (const InboundTrafficPolicy& target : targets) {
    // Both as if they were not there; the server has none of the ports.
    if (target.sources.empty() || !target.tcp_ports.empty()) continue;
    for (const RoutePolicy& match : target.http_routes) {
      if (!matches(match, request, path)) continue;
      known = true;
      if (odd(path) && match.path_regex != ".*") continue;
      if (std::count(target.sources.begin(), target.sources.end(), request.from) > 0) return 200;
    }
  }
  return known ? 403 : 404;
}

// Overlapping targets, methods, headers, literals, prefixes and regexes.
std::vector<InboundTrafficPolicy> targets() {
  return {
      http_target("1-read", {kReader, kWriter},
                  {{"books", "/books/.*", {"GET", "HEAD"}, {}}, {"exact", "/books", {}, {}}}),
      http_target("2-write", {kWriter},
                  {{"books", "/books/.*", {}, {}}, {"admin", "/admin/[a-z]+", {"POST"}, {}}}),
      http_target("3-marked", {kReader},
                  {{"any", "/marked/.*", {"GET"}, {{"x-mark", "a|b"}}},
                   {"present", "/present", {}, {{"x-mark", ".*"}}}}),
      http_target("6-anything", {kWriter}, {{"any", ".*", {"HEAD"}, {{"x-mark", "c"}}}}),
      http_target("4-nobody", {}, {{"ghost", "/ghost", {}, {}}}),
      on_ports({Port{9}},
               http_target("5-elsewhere", {kStranger},
                           {{"books", "/books/.*", {}, {}}, {"other", "/other", {}, {}}})),
  };
}

Request random_request(std::mt19937_64& random) {
  const auto pick = [&](const auto& list) { return list[random() % list.size()]; };
  static const std::vector<ServiceIdentity> kFrom{kReader, kWriter, kStranger};
  static const std::vector<std::string> kMethods{"GET", "POST", "HEAD", "DELETE"};
  static const std::vector<std::string> kPaths{"/books",
                                               "/books/",
                                               "/books/1",
                                               "/books/1?x=/admin/a",
                                               "/admin/root",
                                               "/admin/1",
                                               "/marked/x",
                                               "/present",
                                               "/ghost",
                                               "/other",
                                               "/",
                                               "/books/../admin/root",
                                               "/books/../../admin/root",
                                               "//books//1",
                                               "/admin/../books/1",
                                               "/books/./2",
                                               "/books/%2e%2e/admin/root",
                                               "/books%2f1",
                                               "/marked/..%5cadmin/root",
                                               "/books/..",
                                               "/books/%61",
                                               "/books/a.b/..c/%20d",
                                               "/booksx",
                                               "/adminx"};
  static const std::vector<std::string> kMarks{"", "a", "b", "c"};
  Request request{pick(kFrom), pick(kMethods), pick(kPaths), {}};
  if (const auto mark = pick(kMarks); !mark.empty()) request.headers["x-mark"] = mark;
  return request;
}

// ---- the rig: applications, and proxies that the test reaches without interception

// An application that says what it was told of its caller.
class Application {
 public:
  Application() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto address = socket_address("127.0.0.1", 0);
    socklen_t size = sizeof address;
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    REQUIRE(listen(fd_, 128) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~Application() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  int port() const { return port_; }

 private:
  void serve() {
    for (int client; (client = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0; close(client)) {
      std::string request;
      char buffer[4096];
      while (request.find("\r\n\r\n") == request.npos) {
        const ssize_t n = recv(client, buffer, sizeof buffer, 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<std::size_t>(n));
      }
      std::istringstream lines(request);
      std::string caller;
      for (std::string line; std::getline(lines, line);)
        if (line.starts_with("x-forwarded-client-cert: ")) caller = line.substr(25);
      const std::string answer = "HTTP/1.1 200 OK\r\nx-caller: " + replaced(caller, "\r", "") +
                                 "\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
      send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
  }

  int fd_;
  int port_ = 0;
  std::thread thread_;
};

class Rig {
 public:
  explicit Rig(Protocol protocol = Protocol::kHttp) : protocol_(protocol) {}

  Mesh& mesh() { return mesh_; }
  // Whom clients take the service to be, whatever it proves.
  void expect_server(std::vector<ServiceIdentity> identities) { expected_ = std::move(identities); }
  // Whose certificate is of another trust domain than cluster.local.
  void move(const ServiceIdentity& identity, const std::string& domain) {
    domains_[identity] = TrustDomain(domain);
  }

  void start(const std::vector<InboundTrafficPolicy>& inbound,
             const std::vector<ServiceIdentity>& clients) {
    auto entry = server_entry(protocol_);
    entry.cluster_ip = "127.0.0.1";
    entry.identities = expected_;
    entry.ports = {port(kServerService, number(service_port_), number(target_port_), protocol_)};
    mesh_.put(entry);
    mesh_.put(model::ServiceEndpoints{kServerService,
                                      {endpoint_at("127.0.0.1", number(target_port_), kServer)}});
    mesh_.put(kServer, {}, inbound);
    for (const ServiceIdentity& client : clients)
      mesh_.put(client, {upstream(kServerService, {kServer})});
    if (mesh_.snapshot.config.proxy.permissive) mesh_.permissive();

    const std::string target = std::to_string(number(target_port_));
    const translate::ProxyClass server{kServer, {{entry.ports[0]}}};
    server_ = std::make_unique<RealEnvoy>(
        mesh_, server, issue(kServer), roots(),
        Replacements{{"\"address\":\"0.0.0.0\",\"port_value\":15003",
                      "\"address\":\"127.0.0.1\",\"port_value\":" + target},
                     {"\"address\":\"127.0.0.1\",\"port_value\":" + target + "}}}}]}]",
                      "\"address\":\"127.0.0.1\",\"port_value\":" +
                          std::to_string(application_.port()) + "}}}}]}]"}});
    REQUIRE(server_->accepted_everything());
    const std::string dialled = std::to_string(number(service_port_)) + "}";
    for (const ServiceIdentity& client : clients) {
      // Every client's proxy listens on a loopback address of its own, as if dialled there.
      const std::string address = "127.0.0." + std::to_string(2 + clients_.size());
      clients_[client].address = address;
      clients_[client].envoy = std::make_unique<RealEnvoy>(
          mesh_, translate::ProxyClass{client, {}}, issue(client), roots(),
          Replacements{{"\"port_value\":15001", "\"port_value\":0"},
                       {"\"bind_to_port\":false", "\"bind_to_port\":true"},
                       {"\"address\":\"127.0.0.1\",\"port_value\":" + dialled,
                        "\"address\":\"" + address + "\",\"port_value\":" + dialled}});
      REQUIRE(clients_[client].envoy->accepted_everything());
    }
  }

  std::string send(const Request& request) {
    return exchange(clients_.at(request.from).address, number(service_port_), request.text());
  }

  // Straight to the server's inbound listener, in plain text.
  std::string send_plain(const Request& request) {
    return exchange("127.0.0.1", number(target_port_), request.text());
  }

  RealEnvoy& server() { return *server_; }
  RealEnvoy& client(const ServiceIdentity& identity) { return *clients_.at(identity).envoy; }

 private:
  // One for all domains.
  std::unique_ptr<certificate::Issuer> ca(const TrustDomain& domain) {
    auto ca = certificate::load_or_create_directory_ca({directory_.file("ca"), domain, clock_});
    REQUIRE(ca.ok());
    return *std::move(ca);
  }
  std::string roots() { return ca(TrustDomain("cluster.local"))->trust_bundle_pem(); }

  certificate::Certificate issue(const ServiceIdentity& identity) {
    const TrustDomain& domain =
        domains_.try_emplace(identity, TrustDomain("cluster.local")).first->second;
    certificate::Subject subject{CommonName(identity.name), spiffe_id(domain, identity),
                                 certificate::Usage::kWorkload};
    auto issued = certificate::issue(*ca(domain), subject, std::chrono::hours(1), {}, clock_);
    REQUIRE(issued.ok());
    return *std::move(issued);
  }

  struct Client {
    std::string address;
    std::unique_ptr<RealEnvoy> envoy;
  };

  Protocol protocol_;
  TemporaryDirectory directory_;
  SystemClock clock_;
  std::map<ServiceIdentity, TrustDomain> domains_;
  Application application_;
  const std::array<std::uint16_t, 2> ports_ = osm::testing::free_ports<2>();
  Port service_port_{ports_[0]};
  Port target_port_{ports_[1]};
  std::vector<ServiceIdentity> expected_{kServer};
  Mesh mesh_;
  std::unique_ptr<RealEnvoy> server_;
  std::map<ServiceIdentity, Client> clients_;
};

}  // namespace

TEST_SUITE("translate and a real Envoy") {
  TEST_CASE("any request of any client gets the answer the policies give") {
    Rig rig;
    // While the trust domain changes it is the same, whichever of the two each is of already.
    SUBCASE("in one trust domain") {}
    SUBCASE("the server in the next one") {
      rig.mesh().domains({"cluster.local", "new.example"});
      rig.move(kServer, "new.example");
      rig.move(kWriter, "new.example");
    }
    SUBCASE("some clients in the next one") {
      rig.mesh().domains({"cluster.local", "new.example"});
      rig.move(kReader, "new.example");
      rig.move(kStranger, "new.example");
    }
    rig.start(targets(), {kReader, kWriter, kStranger});
    auto random = osm::testing::seeded();
    std::set<int> seen;
    for (int i = 0; i < osm::testing::steps(400, 4'000); ++i) {
      const Request request = random_request(random);
      const int status = http_status(rig.send(request));
      CHECK_MESSAGE(status == expected_status(targets(), request),
                    request.from.name << " " << request.method << " " << request.path << " ("
                                      << request.headers.size() << " headers)");
      seen.insert(status);
    }
    CHECK(seen == std::set<int>{200, 403, 404});
  }

  TEST_CASE("the application and both access logs learn the proven identity, never a claimed one") {
    Rig rig;
    rig.start({http_target("t", {kReader}, {{"all", ".*", {}, {}}})}, {kReader});
    const Request request{
        kReader, "GET", "/", {{"x-forwarded-client-cert", "URI=spiffe://cluster.local/ns/a/sa/b"}}};
    const auto answer = rig.send(request);
    CHECK(http_status(answer) == 200);
    CHECK(answer.find("URI=spiffe://cluster.local/ns/client/sa/reader\r\n") != answer.npos);
    CHECK(answer.find("ns/a/sa/b") == answer.npos);
    const auto logged = [](RealEnvoy& envoy, const std::string& identity) {
      return eventually([&] {
        return envoy.access_log().find("\"peer_identity\":\"" + identity + "\"") !=
               std::string::npos;
      });
    };
    CHECK_MESSAGE(logged(rig.server(), "spiffe://cluster.local/ns/client/sa/reader"),
                  rig.server().access_log());
    CHECK_MESSAGE(logged(rig.client(kReader), "spiffe://cluster.local/ns/server/sa/server"),
                  rig.client(kReader).access_log());
    const auto lines = rig.server().access_log();
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 1);  // a request is logged once
  }

  TEST_CASE("the access log shows the path that was asked for, whatever headers claim") {
    Rig rig;
    rig.start({http_target("t", {kReader}, {{"all", ".*", {}, {}}})}, {kReader});
    const Request request{kReader, "GET", "/real", {{"x-envoy-original-path", "/claimed"}}};
    REQUIRE(http_status(rig.send(request)) == 200);
    for (RealEnvoy* envoy : {&rig.server(), &rig.client(kReader)})
      CHECK_MESSAGE(eventually([&] {
                      return envoy->access_log().find(R"("path":"/real")") != std::string::npos;
                    }),
                    envoy->access_log());
  }

  TEST_CASE("plain text from outside the mesh is cut, even in permissive mode, and logged once") {
    Rig rig;
    rig.mesh().snapshot.config.proxy.permissive = true;
    rig.start({}, {});
    CHECK(rig.send_plain({kStranger, "GET", "/", {}}).empty());
    CHECK_MESSAGE(eventually([&] {
                    return rig.server().access_log().find(R"("response_flags":"NR")") !=
                           std::string::npos;
                  }),
                  rig.server().access_log());
    const auto lines = rig.server().access_log();
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 1);
  }

  TEST_CASE("in permissive mode every workload may call every path") {
    Rig rig;
    rig.mesh().snapshot.config.proxy.permissive = true;
    rig.start({}, {kStranger});
    CHECK(http_status(rig.send({kStranger, "DELETE", "/any/thing", {}})) == 200);
  }

  TEST_CASE("a peer of no accepted trust domain is refused, as client and as server") {
    Rig rig;
    rig.mesh().domains({"cluster.local", "new.example"});
    SUBCASE("with policies") {}
    SUBCASE("in permissive mode") { rig.mesh().snapshot.config.proxy.permissive = true; }
    // Its connections may be open yet, and are let through; new ones it cannot make.
    rig.mesh().snapshot.allowed_domains.emplace_back("old.example");
    const std::vector<InboundTrafficPolicy> open{
        http_target("t", {kReader, kWriter}, {{"all", ".*", {}, {}}})};
    SUBCASE("a client") {
      rig.move(kReader, "old.example");
      rig.start(open, {kReader, kWriter});
      CHECK(http_status(rig.send({kReader, "GET", "/", {}})) == 503);
      CHECK(http_status(rig.send({kWriter, "GET", "/", {}})) == 200);
    }
    SUBCASE("the server") {
      rig.move(kServer, "old.example");
      rig.start(open, {kReader});
      CHECK(http_status(rig.send({kReader, "GET", "/", {}})) == 503);
    }
  }

  TEST_CASE("TCP passes for the sources of a target and is cut for everybody else") {
    Rig rig(Protocol::kTcp);
    rig.start({tcp_target("t", {kReader})}, {kReader, kStranger});
    CHECK(http_status(rig.send({kReader, "GET", "/", {}})) == 200);
    CHECK(rig.send({kStranger, "GET", "/", {}}).empty());
  }

  TEST_CASE("a server that proves another identity than the service's is not spoken to") {
    const std::vector<ServiceIdentity> somebody_else{{"server", "other"}}, nobody;
    for (const auto& expected : {somebody_else, nobody}) {
      Rig rig;
      rig.expect_server(expected);
      rig.start({http_target("t", {kReader}, {{"all", ".*", {}, {}}})}, {kReader});
      CHECK(http_status(rig.send({kReader, "GET", "/", {}})) == 503);
    }
  }
}
