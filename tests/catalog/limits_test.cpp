// Limits are their Service's, in both modes; settings without effect are reported.
#include <doctest/doctest.h>

#include <chrono>

#include "built_mesh.hpp"
#include "mesh_values.hpp"
#include "osm/values/upstream_traffic_setting.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;
using namespace std::chrono_literals;

namespace {

UpstreamLimits of_requests(std::uint32_t amount) {
  UpstreamLimits limits;
  limits.http = HttpLocalRateLimit{{amount, 60s, 0}, 429, {}};
  return limits;
}

// A store, and a Service that speaks TCP only.
struct Shop : BuiltMesh {
  explicit Shop(bool permissive = false) {
    MeshConfig config;
    config.proxy.permissive = permissive;
    spec.set_mesh_config(config);
    spec.put_namespace(kNs);
    spec.put(service("store", "10.1.0.1"));
    spec.put(service("ledger", "10.1.0.2", {service_port("raw", 99, 99, Protocol::kTcp)}));
    next();
  }
  const model::MeshSnapshot& put(const std::string& name, const std::string& service,
                                 UpstreamLimits limits) {
    spec.put(Policy({kinds::kUpstreamTrafficSetting, kNs, name},
                    UpstreamTrafficSetting{service_name(service), std::move(limits)}));
    return next();
  }
  std::optional<UpstreamLimits> limits(const std::string& service) const {
    return last->services.find(service_name(service))->limits;
  }
};

}  // namespace

TEST_SUITE("catalog.limits") {
  TEST_CASE("limits are their Service's in both modes, and concern nothing else") {
    for (const bool permissive : {false, true}) {
      CAPTURE(permissive);
      Shop shop(permissive);
      const auto& added = shop.put("slow", "store", of_requests(3));
      CHECK(added.problems->empty());
      CHECK(shop.limits("store") == of_requests(3));
      CHECK(shop.limits("ledger") == std::nullopt);
      CHECK(added.changes.services == std::set{service_name("store")});
      CHECK(added.changes.identities.empty());
      CHECK_FALSE(added.changes.everything);
      const std::string hash = added.hash;
      CHECK(shop.put("slow", "store", of_requests(4)).hash != hash);
      shop.spec.remove({kinds::kUpstreamTrafficSetting, kNs, "slow"});
      CHECK(shop.next().changes.services == std::set{service_name("store")});
      CHECK(shop.limits("store") == std::nullopt);
    }
  }

  TEST_CASE("of several settings of one Service the first by name counts") {
    Shop shop;
    shop.put("b", "store", of_requests(7));
    const auto& after = shop.put("a", "store", of_requests(1));
    CHECK(shop.limits("store") == of_requests(1));
    REQUIRE(after.problems->size() == 1);
    CHECK(after.problems->front().code == ErrorCode::kDuplicateObject);
    CHECK(after.problems->front().object == ObjectKey{kinds::kUpstreamTrafficSetting, kNs, "b"});
    CHECK(after.problems->front().cause.find("UpstreamTrafficSetting shop/a already limits") == 0);
  }

  TEST_CASE("the apex of a split has requests of its own, and no connections") {
    Shop shop;
    shop.spec.put(service("store-v1", "10.1.0.3"));
    shop.spec.put(smi::TrafficSplit{{kNs, "half"}, service_name("store"), {{"store-v1", 1}}});
    const auto before = shop.next().problems->size();  // of the split itself
    CHECK(shop.put("slow", "store", of_requests(3)).problems->size() == before);
    UpstreamLimits limits = of_requests(3);
    limits.global_http.emplace();
    limits.idle = {1s, 1s};
    CHECK(shop.put("slow", "store", limits).problems->size() == before);
    limits.connections.max_connections = 5;
    const auto& after = shop.put("slow", "store", limits);
    REQUIRE(after.problems->size() == before + 1);
    CHECK(std::any_of(after.problems->begin(), after.problems->end(), [](const Problem& one) {
      return one.field == "spec.connectionSettings" &&
             one.cause.find("limit the backends") != std::string::npos;
    }));
  }

  TEST_CASE("a local limit by the hour is a warning, which names the way to a quota") {
    Shop shop;
    const auto only = [&](const std::string& service, UpstreamLimits limits) {
      const auto& problems = *shop.put("slow", service, std::move(limits)).problems;
      REQUIRE(problems.size() == 1);
      CHECK(problems.front().code == ErrorCode::kLimitResets);
      CHECK(severity_of(problems.front().code) == Severity::kWarning);
      CHECK(problems.front().cause.find("begins full again") != std::string::npos);
      CHECK(problems.front().cause.find("spec.rateLimit.global") != std::string::npos);
      return problems.front().field;
    };
    const HttpLocalRateLimit hourly{{5, 3600s, 0}, 429, {}};
    UpstreamLimits requests;
    requests.http = hourly;
    CHECK(only("store", requests) == "spec.rateLimit.local.http.unit");
    UpstreamLimits path = of_requests(3);
    path.paths = {{"/a", of_requests(1).http}, {"/b", hourly}};
    CHECK(only("store", path) == "spec.httpRoutes[1].rateLimit.local.unit");
    UpstreamLimits connections;
    connections.tcp = LocalRateLimit{5, 3600s, 0};
    CHECK(only("store", connections) == "spec.rateLimit.local.tcp.unit");
    CHECK(only("ledger", connections) == "spec.rateLimit.local.tcp.unit");
    requests.tcp = connections.tcp;
    CHECK(shop.put("slow", "store", requests).problems->size() == 2);
    connections.tcp->unit = 60s;
    CHECK(shop.put("slow", "store", connections).problems->empty());
    CHECK(shop.put("slow", "store", of_requests(3)).problems->empty());
  }

  TEST_CASE("a missing Service and one without HTTP are reported until they change") {
    Shop shop;
    const auto& dangling = shop.put("a", "nothing", of_requests(1));
    REQUIRE(dangling.problems->size() == 1);
    CHECK(dangling.problems->front().code == ErrorCode::kDanglingReference);
    CHECK(dangling.problems->front().field == "spec.host");
    shop.spec.put(service("nothing", "10.1.0.3"));
    CHECK(shop.next().problems->empty());
    CHECK(shop.limits("nothing") == of_requests(1));

    const auto& raw = shop.put("b", "ledger", of_requests(1));
    REQUIRE(raw.problems->size() == 1);
    CHECK(raw.problems->front().code == ErrorCode::kUnusedField);
    CHECK(raw.problems->front().field == "spec.rateLimit.local.http");
    UpstreamLimits counted;
    counted.global_http.emplace();
    CHECK(shop.put("b", "ledger", counted).problems->front().field == "spec.rateLimit.global.http");
    UpstreamLimits connections;
    connections.tcp = LocalRateLimit{1, 1s, 0};
    CHECK(shop.put("b", "ledger", connections).problems->empty());
  }
}
