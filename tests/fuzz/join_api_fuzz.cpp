// Requests of anybody who reaches --join-address → the join API, on a control plane in memory: only
// a token that is valid is answered, about its own machine. It is worth one certificate, for a
// request of that machine. Whatever else comes changes nothing.
//
//   input: requests, each '0' (/v1/join/subject), '1' (/v1/join), or '2' and a line of path, then a
//   line of body; or '3': a minute passes. "%" in a body stands for the request of b/server for its
//   certificate, and "^" for that of b/server2. Each token's secret is "s": "a" of b/server, "b" of
//   b/server2 for 90 s, "c" that has expired, "d" of no machine of the mesh.
#include <openssl/err.h>

#include <boost/json.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "fuzz/memory_controller.hpp"
#include "osm/certificate/request.hpp"
#include "osm/net/join_api.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

constexpr int kMostRequests = 100;
constexpr int kMostMinutes = 3;

class Record final : public TextRecord {
 public:
  std::string name() const override { return "the record"; }
  Result<Text> load() override { return Text{text, "1"}; }
  Status store(const Text& next) override {
    text = next.text;
    return {};
  }

  std::string text;
};

struct Token {
  WorkloadName machine;
  WallTime expires;
};

certificate::Subject subject_of(const MemoryController& controller, const WorkloadName& machine) {
  const auto found = controller.machines->find_workload(machine);
  require(found.has_value(), "the base mesh has the machine", machine.str());
  return controller.control_plane->proxy_subject(*found);
}

// As a part of a JSON text.
std::string request_of(const MemoryController& controller, const char* machine) {
  const auto made = certificate::make_request(subject_of(controller, {"b", machine}));
  require(made.ok(), "a machine makes a request");
  const std::string quoted = json::serialize(json::string(made->request_pem));
  return quoted.substr(1, quoted.size() - 2);
}

struct World {
  World() {
    // As with a server for proxies, by whose name gRPC libraries know it.
    const auto own = controller.manager.issue_certificate(
        {.common_name = CommonName("osm-controller"),
         .spiffe_id = SpiffeId("spiffe://cluster.local/osm/controller"),
         .usage = certificate::Usage::kController,
         .dns_names = {"osm-controller.osm-system"}},
        std::chrono::hours(24));
    require(own.ok(), "a controller has a certificate", own.ok() ? "" : own.error().text());
  }

  MemoryController controller;
  const std::string server = request_of(controller, "server");
  const std::string server2 = request_of(controller, "server2");
};

class Joining {
 public:
  explicit Joining(World& world) : world_(world) {
    const WallTime now = world_.controller.clock.wall_now();
    add("a", "server", now + std::chrono::minutes(10));
    add("b", "server2", now + std::chrono::seconds(90));
    add("c", "server", now - std::chrono::seconds(1));
    add("d", "nowhere", now + std::chrono::minutes(10));
    record_.text = json::serialize(json::object{{"tokens", recorded_}});
    net::AdminApiOptions options = world_.controller.options();
    options.join_tokens = &record_;
    api_ = net::make_join_api(options);
  }

  void step(Choices& choices) {
    // Callers without a token read the record at a bounded rate.
    world_.controller.clock.advance(std::chrono::milliseconds(50));
    const std::size_t kind = choices.below(4);
    if (kind == 3) {
      // One clock is in use for millions of inputs.
      if (++minutes_ <= kMostMinutes) world_.controller.clock.advance(std::chrono::minutes(1));
      return;
    }
    net::Request request{.method = "POST",
                         .path = kind == 0   ? "/v1/join/subject"
                                 : kind == 1 ? "/v1/join"
                                             : '/' + choices.line(200)};
    for (const char c : choices.line())
      request.body += c == '%' ? world_.server : c == '^' ? world_.server2 : std::string(1, c);
    send(request);
    require(ERR_peek_error() == 0, "OpenSSL's error queue is left empty");
  }

 private:
  void add(const std::string& id, const std::string& machine, WallTime expires) {
    tokens_[id] = {{"b", machine}, expires};
    const auto at = std::chrono::duration_cast<std::chrono::seconds>(expires.time_since_epoch());
    recorded_.push_back(json::object{{"id", id},
                                     {"hash", digest_of("s").hex()},
                                     {"namespace", "b"},
                                     {"name", machine},
                                     {"expires", at.count()}});
  }

  void send(const net::Request& request) {
    const json::object body = parse_json_object(request.body, "").value_or({});
    const auto token = tokens_.find(text_at(body, "id"));
    const bool valid = token != tokens_.end() && text_at(body, "secret") == "s" &&
                       token->second.expires > world_.controller.clock.wall_now();
    const std::string before = record_.text;
    const int issued = world_.controller.manager.issued();

    const net::Response response = api_(request);
    const json::object answer = checked(response);
    const bool joined = response.status < 300 && request.path == "/v1/join";
    require(world_.controller.manager.issued() - issued == (joined ? 1 : 0),
            "one certificate is issued for each machine that joins", response.body);
    require((record_.text != before) == joined, "a token ends with its certificate", response.body);
    if (response.status >= 300) return;
    require(valid, "only a valid token is answered", request.body);
    const certificate::Subject subject = subject_of(world_.controller, token->second.machine);
    require(text_at(answer, "common_name") == subject.common_name.str(),
            "an answer is about the token's machine", response.body);
    if (!joined) return;
    require(certificate::check_request(subject, text_at(body, "request")).ok(),
            "a certified request is of the token's machine", request.body);
    tokens_.erase(token);
  }

  World& world_;
  std::map<std::string, Token> tokens_;
  json::array recorded_;
  Record record_;
  net::Handler api_;
  int minutes_ = 0;
};

void run(Choices choices) {
  static World& world = *new World;
  Joining joining(world);
  for (int steps = 0; steps < kMostRequests && !choices.empty(); ++steps) joining.step(choices);
}

const bool kAdded = add("join_api", [](std::string_view input) { run(Choices(input)); });

}  // namespace
