#include "synthetic_api_server.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <fstream>
#include <thread>
#include <utility>

#include "certificate/issuance.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/runtime/system.hpp"
#include "process_usage.hpp"

namespace osm::bench {
namespace {

constexpr const char* kServerName = "kubernetes.default.svc";
constexpr int kPageSize = 500;  // what informers ask for

// The value of a member of a target's query, empty where it has none.
std::string query(const std::string& target, const std::string& name) {
  for (const char before : {'?', '&'}) {
    const auto at = target.find(before + name + '=');
    if (at == std::string::npos) continue;
    const auto begin = at + name.size() + 2;
    return target.substr(begin, target.find('&', begin) - begin);
  }
  return {};
}

int query_number(const std::string& target, const std::string& name) {
  const std::string text = query(target, name);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "/api/v1/pods?limit=500": "pods"
std::string plural_of(const std::string& target) {
  const std::string path = target.substr(0, target.find('?'));
  return path.substr(path.rfind('/') + 1);
}

Error openssl_failure(const char* what) {
  return {ErrorCode::kInternal, std::string("OpenSSL refuses ") + what};
}

Status write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path);
  file << content;
  file.close();
  if (!file) return Error{ErrorCode::kStorage, path + ": cannot be written"};
  return {};
}

}  // namespace

// One client's. Written by one thread at a time: its own, then, of a watch, whoever has the mutex.
struct SyntheticApiServer::Connection {
  explicit Connection(int socket) : fd(socket) {}
  ~Connection() {
    SSL_free(ssl);
    ::close(fd);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Nothing is done about a client that has gone: it asks again.
  void send(const std::string& data) const {
    SSL_write(ssl, data.data(), static_cast<int>(data.size()));
  }
  void send_event(const std::string& object, const char* type = "MODIFIED") const {
    const std::string event = fmt::format(R"({{"type":"{}","object":)", type) + object + "}\n";
    send(fmt::format("{:x}\r\n", event.size()) + event + "\r\n");
  }

  int fd;
  SSL* ssl = nullptr;
};

Result<std::unique_ptr<SyntheticApiServer>> SyntheticApiServer::start(
    const ClusterSize& size, const std::string& directory) {
  std::unique_ptr<SyntheticApiServer> server(new SyntheticApiServer(size));
  if (Status ready = server->prepare_tls(directory); !ready) return ready.error();
  {
    // Written before anybody asks, so that clients wait for bytes and not for their making.
    std::lock_guard lock(server->mutex_);
    for (const char* plural : {"namespaces", "services", "serviceaccounts", "endpointslices",
                               "traffictargets", "httproutegroups", "pods"})
      for (int i = 0; i < server->cluster_.count(plural); ++i) server->text(plural, i);
  }
  if (Status listening = server->listen(directory); !listening) return listening.error();
  std::thread([raw = server.get()] { raw->accept_all(); }).detach();
  return server;
}

Status SyntheticApiServer::prepare_tls(const std::string& directory) {
  const SystemClock clock;
  const TrustDomain domain("cluster.local");
  OSM_TRY(const auto issuer,
          certificate::load_or_create_directory_ca(
              {.directory = directory + "/ca", .trust_domain = domain, .clock = clock}));
  OSM_TRY(const auto issued,
          certificate::issue(*issuer,
                             {CommonName(kServerName),
                              SpiffeId("spiffe://cluster.local/bench/api-server"),
                              certificate::Usage::kWebhook,
                              {kServerName}},
                             std::chrono::hours(24), {}, clock));
  const std::string chain = directory + "/server.pem";
  const std::string key = directory + "/server.key";
  for (const auto& [path, content] :
       {std::pair(directory + "/roots.pem", issuer->trust_bundle_pem()),
        std::pair(chain, issued.chain_pem), std::pair(key, std::string(issued.private_key.pem()))})
    if (Status written = write_file(path, content); !written) return written;
  tls_ = {SSL_CTX_new(TLS_server_method()), SSL_CTX_free};
  if (!tls_ || SSL_CTX_use_certificate_chain_file(tls_.get(), chain.c_str()) != 1)
    return openssl_failure("its certificate");
  if (SSL_CTX_use_PrivateKey_file(tls_.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
    return openssl_failure("its key");
  return {};
}

Status SyntheticApiServer::listen(const std::string& directory) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener_, plain, size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, plain, &size) != 0)
    return Error{ErrorCode::kUnavailable, "127.0.0.1: cannot be listened at"};
  kubeconfig_ = directory + "/kubeconfig";
  return write_file(
      kubeconfig_,
      fmt::format("apiVersion: v1\nkind: Config\ncurrent-context: bench\n"
                  "contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n"
                  "clusters: [{{name: bench, cluster: {{server: 'https://127.0.0.1:{}', "
                  "tls-server-name: {}, certificate-authority: '{}/roots.pem'}}}}]\n"
                  "users: [{{name: bench, user: {{token: bench}}}}]\n",
                  ntohs(address.sin_port), kServerName, directory));
}

void SyntheticApiServer::accept_all() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    std::thread([this, connection = std::make_shared<Connection>(fd)] {
      serve(connection);
    }).detach();
  }
}

void SyntheticApiServer::serve(std::shared_ptr<Connection> connection) {
  connection->ssl = SSL_new(tls_.get());
  SSL_set_fd(connection->ssl, connection->fd);
  if (SSL_accept(connection->ssl) != 1) return;
  std::string heads;
  std::array<char, 4096> buffer;
  for (;;) {
    const auto end = heads.find("\r\n\r\n");
    if (end == std::string::npos) {
      const int got = SSL_read(connection->ssl, buffer.data(), buffer.size());
      if (got <= 0) return;
      heads.append(buffer.data(), static_cast<std::size_t>(got));
      continue;
    }
    // "GET /api/v1/pods?limit=500 HTTP/1.1"
    const auto begin = heads.find(' ') + 1;
    const std::string target = heads.substr(begin, heads.find(' ', begin) - begin);
    heads.erase(0, end + 4);
    if (!answer(connection, target)) return;
  }
}

bool SyntheticApiServer::answer(const std::shared_ptr<Connection>& connection,
                                const std::string& target) {
  const std::string plural = plural_of(target);
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  if (query(target, "watch").empty()) {
    std::string body;
    {
      std::lock_guard lock(mutex_);
      body = page(plural, query_number(target, "continue"), query_number(target, "limit"));
    }
    connection->send(head + fmt::format("Content-Length: {}\r\n\r\n", body.size()));
    connection->send(body);
    return true;
  }
  std::lock_guard lock(mutex_);
  connection->send(head + "Transfer-Encoding: chunked\r\n\r\n");
  const int since = query_number(target, "resourceVersion");
  const int count = static_cast<int>(items(plural).size());
  for (int i = 0; i < count; ++i)
    if (items(plural)[static_cast<std::size_t>(i)].state.version > since)
      connection->send_event(text(plural, i));
  watches_[plural] = connection;  // the one before it was given up
  watched_.notify_all();
  return false;
}

std::vector<SyntheticApiServer::Item>& SyntheticApiServer::items(const std::string& plural) {
  std::vector<Item>& items = items_[plural];
  if (items.empty()) items.resize(static_cast<std::size_t>(cluster_.count(plural)));
  return items;
}

const std::string& SyntheticApiServer::text(const std::string& plural, int index) {
  Item& item = items(plural)[static_cast<std::size_t>(index)];
  if (item.text.empty())
    item.text = boost::json::serialize(cluster_.object(plural, index, item.state));
  return item.text;
}

std::string SyntheticApiServer::page(const std::string& plural, int from, int limit) {
  const int count = cluster_.count(plural);
  const int end = limit == 0 ? count : std::min(count, from + limit);
  std::string body = fmt::format(
      R"({{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{}")", version_);
  if (end < count) body += fmt::format(R"(,"continue":"{}")", end);
  body += R"(},"items":[)";
  for (int i = from; i < end; ++i) {
    if (i > from) body += ',';
    body += text(plural, i);
  }
  return body + "]}";
}

void SyntheticApiServer::happen(Happening what, int count) {
  const std::string plural = what == Happening::kSliceReady ? "endpointslices" : "pods";
  for (int i = 0; i < count; ++i) {
    std::lock_guard lock(mutex_);
    Item& item = items(plural)[static_cast<std::size_t>(i)];
    item.state.version = ++version_;
    switch (what) {
      case Happening::kHeartbeat:
        ++item.state.heartbeats;
        break;
      case Happening::kLabel:
        ++item.state.labels;
        break;
      case Happening::kPodReady:
      case Happening::kSliceReady:
        item.state.ready = !item.state.ready;
        break;
      case Happening::kPodMoved:
        item.state.moved = !item.state.moved;
        break;
    }
    item.text.clear();
    tell(plural, i);
  }
}

void SyntheticApiServer::tell(const std::string& plural, int index) {
  if (const auto watch = watches_.find(plural); watch != watches_.end())
    watch->second->send_event(text(plural, index));
}

void SyntheticApiServer::expire(std::size_t watches) {
  std::unique_lock lock(mutex_);
  watched_.wait(lock, [&] { return watches_.size() >= watches; });
  for (const auto& [plural, watch] : std::exchange(watches_, {})) {
    // After a bookmark, the watch was no failure: the next list follows without a back-off.
    watch->send_event(fmt::format(R"({{"metadata":{{"resourceVersion":"{}"}}}})", version_),
                      "BOOKMARK");
    watch->send_event(R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})",
                      "ERROR");
    watch->send("0\r\n\r\n");
  }
}

ApiServerProcess::Parsing SyntheticApiServer::parse_everything() {
  ApiServerProcess::Parsing parsing;
  std::lock_guard lock(mutex_);
  for (const auto& [plural, items] : items_) {
    for (int from = 0; from < cluster_.count(plural); from += kPageSize) {
      const std::string bytes = page(plural, from, kPageSize);
      const double before = cpu_seconds();
      boost::system::error_code fault;
      boost::json::value parsed = boost::json::parse(bytes, fault);
      parsed = nullptr;
      parsing.cpu_seconds += cpu_seconds() - before;
      parsing.bytes += static_cast<double>(bytes.size());
      if (plural == "pods") parsing.pod_bytes += static_cast<double>(bytes.size());
    }
  }
  return parsing;
}

}  // namespace osm::bench
