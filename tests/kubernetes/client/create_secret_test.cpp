// A Secret is created once and never overwritten.
#include <doctest/doctest.h>

#include "kubernetes/client/memory_api.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

namespace k = kubernetes;

struct Fixture {
  testing::ManualClock clock;
  kubernetes_test::MemoryApiCluster cluster{clock};

  Status create() {
    return k::create_secret(cluster, {.ns = "shop",
                                      .name = "bootstrap",
                                      .labels = {{"app", "osm"}},
                                      .annotations = {{"made", "today"}},
                                      .data = {{"tls.key", SecretBytes("s3cret")}, {"empty", {}}}});
  }
};

TEST_SUITE("kubernetes::create_secret") {
  TEST_CASE("a secret is created with its labels, annotations and its bytes in base64") {
    Fixture f;
    REQUIRE(f.create().ok());
    const auto object = f.cluster.memory.at(k::kSecrets, "shop", "bootstrap");
    CHECK(object.at("apiVersion") == "v1");
    CHECK(object.at("kind") == "Secret");
    CHECK(object.at("type") == "Opaque");
    CHECK(object.at("metadata").at("labels").at("app") == "osm");
    CHECK(object.at("metadata").at("annotations").at("made") == "today");
    CHECK(object.at("data").at("tls.key") == "czNjcmV0");
    CHECK(object.at("data").at("empty") == "");
  }

  TEST_CASE("an existing Secret is left unchanged") {
    Fixture f;
    REQUIRE(f.create().ok());
    const auto before = f.cluster.memory.at(k::kSecrets, "shop", "bootstrap");
    const Status again = f.create();
    REQUIRE_FALSE(again.ok());
    CHECK(again.error().code == ErrorCode::kAlreadyExists);
    CHECK(again.error().text().find("s3cret") == std::string::npos);
    CHECK(f.cluster.memory.at(k::kSecrets, "shop", "bootstrap") == before);
  }

  TEST_CASE("a denial is told in the server's words, without a byte of the secret") {
    Fixture f;
    std::string asked;
    f.cluster.memory.set_fault([&](const std::string& call) -> Status {
      asked = call;
      return Error{ErrorCode::kPermissionDenied, "secrets is forbidden: grant it (RBAC)"};
    });
    const Status denied = f.create();
    REQUIRE_FALSE(denied.ok());
    CHECK(asked == "create secrets shop/bootstrap");
    CHECK(denied.error().code == ErrorCode::kPermissionDenied);
    CHECK(denied.error().message.find("secrets is forbidden") != std::string::npos);
    CHECK(denied.error().text().find("s3cret") == std::string::npos);
    CHECK(denied.error().text().find("czNjcmV0") == std::string::npos);
    CHECK(f.cluster.memory.count(k::kSecrets) == 0);
  }
}

}  // namespace
