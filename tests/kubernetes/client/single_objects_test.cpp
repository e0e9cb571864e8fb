// Single objects are created, read, listed by age and deleted.
#include <doctest/doctest.h>

#include <chrono>

#include "kubernetes/client/memory_api.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

namespace k = kubernetes;
using namespace std::chrono_literals;

const k::ObjectKind kRequests{"cert-manager.io", "v1", "certificaterequests", "CertificateRequest"};

struct Fixture {
  testing::ManualClock clock;
  kubernetes_test::MemoryApiCluster cluster{clock};

  Result<std::string> create(const std::string& name, const std::string& label = "osm") {
    return k::create_object(cluster, kRequests,
                            R"({"metadata":{"namespace":"osm-system","name":")" + name +
                                R"(","labels":{"by":")" + label + R"("}},"spec":{"a":1}})");
  }
  std::vector<std::string> older(std::chrono::seconds age) {
    const auto names =
        k::list_older_objects(cluster, kRequests, "osm-system", "by=osm", clock.wall_now() - age);
    REQUIRE_MESSAGE(names.ok(), names.error().text());
    return *names;
  }
};

TEST_SUITE("kubernetes: single objects") {
  TEST_CASE("an object is created, read as stored, and deleted") {
    Fixture f;
    const auto created = f.create("one");
    REQUIRE_MESSAGE(created.ok(), created.error().text());
    const auto read = k::get_object(f.cluster, kRequests, "osm-system", "one");
    REQUIRE(read.ok());
    CHECK(*read == *created);
    const auto object = boost::json::parse(*read).as_object();
    CHECK(object.at("apiVersion") == "cert-manager.io/v1");
    CHECK(object.at("kind") == "CertificateRequest");
    CHECK(object.at("spec").at("a") == 1);
    CHECK(k::delete_object(f.cluster, kRequests, "osm-system", "one").ok());
    const auto gone = k::get_object(f.cluster, kRequests, "osm-system", "one");
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().code == ErrorCode::kNotFound);
  }

  TEST_CASE("an existing object and invalid JSON are not created") {
    Fixture f;
    REQUIRE(f.create("one").ok());
    CHECK(f.create("one").error().code == ErrorCode::kAlreadyExists);
    CHECK(k::create_object(f.cluster, kRequests, "no JSON").error().code ==
          ErrorCode::kInvalidSyntax);
  }

  TEST_CASE("objects of one label that are older than a time are listed") {
    Fixture f;
    REQUIRE(f.create("old").ok());
    REQUIRE(f.create("of-others", "others").ok());
    f.clock.advance(10min);
    REQUIRE(f.create("new").ok());
    CHECK(f.older(5min) == std::vector<std::string>{"old"});
    CHECK(f.older(20min).empty());
    CHECK(f.older(-1min).size() == 2);
  }
}

}  // namespace
