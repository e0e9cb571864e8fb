// Only tokens of the mesh's accounts for one pod open the admin API; refusals name the Role.
#include "kubernetes/client/admin_access.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "kubernetes/client/memory_api.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

namespace json = boost::json;
namespace k = kubernetes;

constexpr const char* kNamespace = "osm-system";

// An API server that issues tokens, reviews them, and passes requests on to controllers. A token is
// "account@audience".
class AdminServer final : public kubernetes_test::MemoryApi {
 public:
  using MemoryApi::MemoryApi;

  Result<json::object> create(const k::Resource& resource, const json::object& object) override {
    if (resource.plural != "tokenreviews") return MemoryApi::create(resource, object);
    ++reviews;
    if (away) return Error{ErrorCode::kUnavailable, "nobody answers"};
    const std::string token = text_at(map_at(object, "spec"), "token");
    const std::string wanted(list_at(map_at(object, "spec"), "audiences").at(0).as_string());
    const auto at = token.find('@');
    if (at == std::string::npos || token.substr(at + 1) != wanted)
      return json::object{{"status", {{"authenticated", false}}}};
    return json::object{
        {"status",
         {{"authenticated", true},
          {"audiences", json::array{wanted}},
          {"user", {{"username", "system:serviceaccount:" + token.substr(0, at)}}}}}};
  }

  Result<net::Response> forward(const k::ForwardRequest& request) override {
    forwarded.push_back(request);
    if (request.target.ends_with("/token")) return answer_token(request);
    for (auto& [pod, handler] : controllers) {
      const std::string prefix = "/api/v1/namespaces/osm-system/pods/https:" + pod + ":9094/proxy";
      if (!request.target.starts_with(prefix)) continue;
      auto passed = net::parse_target(request.target.substr(prefix.size()));
      REQUIRE(passed.ok());
      passed->method = request.method;
      passed->body = request.body;
      passed->headers = request.headers;
      return handler(*passed);
    }
    return status(503, "ServiceUnavailable", "error trying to reach service");
  }

  static net::Response status(int code, const std::string& reason, const std::string& message) {
    return net::json_response(
        json::serialize(json::object{
            {"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}}),
        code);
  }

  bool issues_tokens = true;
  bool away = false;  // for reviews
  int reviews = 0;
  std::vector<k::ForwardRequest> forwarded;
  std::vector<std::pair<std::string, net::Handler>> controllers;

 private:
  net::Response answer_token(const k::ForwardRequest& request) const {
    if (!issues_tokens) return status(403, "Forbidden", "cannot create serviceaccounts/token");
    const auto asked = json::parse(request.body);
    const auto audience = list_at(map_at(asked, "spec"), "audiences").at(0).as_string();
    const bool admin = request.target.find("/osm-admin/") != std::string::npos;
    const std::string token = std::string("osm-system:") + (admin ? "osm-admin" : "osm-viewer") +
                              '@' + std::string(audience);
    return net::json_response(json::serialize(json::object{{"status", {{"token", token}}}}), 201);
  }
};

struct Fixture {
  class Server final : public k::Cluster {
   public:
    explicit Server(const Clock& clock) : api_(clock) {}
    std::string server() const override { return "https://192.0.2.1:6443"; }
    AdminServer& api() override { return api_; }

   private:
    AdminServer api_;
  };

  testing::ManualClock clock;
  Server cluster{clock};
  std::unique_ptr<k::AdminAccess> access = k::make_admin_access(cluster, kNamespace);

  void add_controller(const std::string& pod, bool ready = true,
                      const std::string& phase = "Running", bool ends = false) {
    json::object object = k::new_object(k::kPods, kNamespace, pod, {{"app", "osm-controller"}});
    if (ends) object["metadata"].as_object()["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    object["status"] = {
        {"phase", phase},
        {"conditions",
         json::array{json::object{{"type", "Ready"}, {"status", ready ? "True" : "False"}}}}};
    REQUIRE(cluster.api().create(k::kPods, object).ok());
    cluster.api().controllers.emplace_back(pod, protected_handler(pod));
  }

  net::Handler protected_handler(const std::string& pod) {
    return [pod, check = k::require_admin_token({.cluster = cluster, .replica = pod})](
               const net::Request& asked) {
      net::Request request = asked;
      if (auto refused = check(request)) return *refused;
      return net::json_response('"' + pod + ' ' + request.method + ' ' + request.path + '"');
    };
  }

  // The status with which a controller answers a request that shows a token.
  int asked_with(const std::string& token, const std::string& method = "GET") {
    net::Request request{method, "/v1/proxies", {}, ""};
    if (!token.empty()) request.headers = {{"x-osm-admin-token", token}};
    return protected_handler("osm-controller-a")(request).status;
  }
};

const std::string kAudience = "openservicemesh.io/admin/osm-system/osm-controller-a";

TEST_SUITE("kubernetes: access to the admin API") {
  TEST_CASE("a controller answers who shows a token of a mesh's account for its pod") {
    Fixture f;
    CHECK(f.asked_with("osm-system:osm-viewer@" + kAudience) == 200);
    CHECK(f.asked_with("osm-system:osm-admin@" + kAudience) == 200);
    CHECK(f.asked_with("osm-system:osm-admin@" + kAudience, "POST") == 200);
  }

  TEST_CASE("what the controller does is done for the token's user, as its audit log says") {
    Fixture f;
    const net::HeadCheck check =
        k::require_admin_token({.cluster = f.cluster, .replica = "osm-controller-a"});
    net::Request request{"POST", "/v1/vm/bootstrap", {}, ""};
    request.headers = {{"x-osm-admin-token", "osm-system:osm-admin@" + kAudience}};
    request.client = "10.0.0.1:41234";
    CHECK_FALSE(check(request));
    CHECK(request.client == "system:serviceaccount:osm-system:osm-admin through 10.0.0.1:41234");
  }

  TEST_CASE("a controller refuses everybody else") {
    Fixture f;
    CHECK(f.asked_with("osm-system:osm-viewer@" + kAudience, "POST") == 403);
    CHECK(f.asked_with("osm-system:osm-viewer@" + kAudience, "PUT") == 403);
    CHECK(f.asked_with("osm-system:osm-viewer@openservicemesh.io/admin/osm-system/other") == 403);
    CHECK(f.asked_with("osm-system:osm-controller@" + kAudience) == 403);
    CHECK(f.asked_with("other:osm-admin@" + kAudience) == 403);
    CHECK(f.asked_with("nonsense") == 403);
  }

  TEST_CASE("the API server is not asked about no token or an endless one") {
    Fixture f;
    CHECK(f.asked_with("") == 403);
    CHECK(f.asked_with(std::string(8193, 'a')) == 403);
    CHECK(f.cluster.api().reviews == 0);
  }

  TEST_CASE("nobody is let in while the API server does not answer") {
    Fixture f;
    f.cluster.api().away = true;
    CHECK(f.asked_with("osm-system:osm-admin@" + kAudience) == 503);
  }

  TEST_CASE("the ready controllers come first") {
    Fixture f;
    f.add_controller("osm-controller-a", false);
    f.add_controller("osm-controller-b");
    const auto replicas = f.access->replicas();
    REQUIRE_MESSAGE(replicas.ok(), replicas.error().text());
    REQUIRE(replicas->size() == 2);
    CHECK((*replicas)[0].name == "osm-controller-b");
    CHECK((*replicas)[0].ready);
    CHECK_FALSE((*replicas)[1].ready);
  }

  TEST_CASE("controllers that start or end are not asked") {
    Fixture f;
    f.add_controller("osm-controller-a", true, "Pending");
    f.add_controller("osm-controller-b", true, "Running", true);
    const auto none = f.access->replicas();
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().code == ErrorCode::kNotFound);
    CHECK(none.error().message.find("namespace osm-system") != std::string::npos);
  }

  TEST_CASE("a request reaches the controller with a token of the account that it needs") {
    Fixture f;
    f.add_controller("osm-controller-a");
    f.add_controller("osm-controller-b");
    const auto read = f.access->ask("osm-controller-b", {.target = "/v1/proxies?a=b"});
    REQUIRE_MESSAGE(read.ok(), read.error().text());
    CHECK(read->body == "\"osm-controller-b GET /v1/proxies\"");
    const auto written =
        f.access->ask("osm-controller-a", {.method = "POST", .target = "/v1/roots/distrust"});
    REQUIRE_MESSAGE(written.ok(), written.error().text());
    CHECK(written->body == "\"osm-controller-a POST /v1/roots/distrust\"");
  }

  TEST_CASE("a token is used again until the controller refuses it") {
    Fixture f;
    f.add_controller("osm-controller-a");
    for (int i = 0; i < 3; ++i) CHECK(f.access->ask("osm-controller-a", {.target = "/v1/x"}).ok());
    CHECK(f.cluster.api().forwarded.size() == 4);  // one token, three requests
    // Another controller has the name: it refuses the token, and a new one does not help.
    f.cluster.api().controllers[0].second = [](const net::Request&) {
      return net::error_response({ErrorCode::kPermissionDenied, "refused"});
    };
    const auto refused = f.access->ask("osm-controller-a", {.target = "/v1/x"});
    REQUIRE(refused.ok());
    CHECK(refused->status == 403);
    CHECK(f.cluster.api().forwarded.size() == 7);  // the request, a new token, the request
  }

  TEST_CASE("a refusal of the API server names the Role that permits it") {
    Fixture f;
    f.add_controller("osm-controller-a");
    f.cluster.api().issues_tokens = false;
    const auto refused = f.access->ask("osm-controller-a", {.target = "/v1/x"});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK(refused.error().message.find("kubectl create rolebinding NAME -n osm-system "
                                       "--role=osm-viewer") != std::string::npos);
    f.cluster.api().issues_tokens = true;
    const auto away = f.access->ask("osm-controller-z", {.target = "/v1/x"});
    REQUIRE_FALSE(away.ok());
    CHECK(away.error().code == ErrorCode::kUnavailable);
    CHECK(away.error().message.find("osm-system/osm-controller-z") != std::string::npos);
  }
}

}  // namespace
