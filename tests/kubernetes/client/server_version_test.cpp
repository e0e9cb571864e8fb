// The server's minor version is read, or reported as unknown.
#include <doctest/doctest.h>

#include "kubernetes/client/memory_api.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

struct Fixture {
  testing::ManualClock clock;
  kubernetes_test::MemoryApiCluster cluster{clock};

  Result<int> minor_of(Result<std::string> version) {
    cluster.memory.set_version(std::move(version));
    return kubernetes::server_minor_version(cluster);
  }
};

TEST_SUITE("kubernetes::server_minor_version") {
  TEST_CASE("is the second number, whatever a vendor adds") {
    Fixture f;
    for (const auto& [version, minor] :
         {std::pair("v1.31.1", 31), std::pair("v1.9.0", 9), std::pair("v1.29.4-gke.1043002", 29),
          std::pair("v1.28.9-eks-036c24b", 28), std::pair("v1.31.0+k3s1", 31)}) {
      CAPTURE(version);
      const auto found = f.minor_of(std::string(version));
      REQUIRE(found.ok());
      CHECK(*found == minor);
    }
  }

  TEST_CASE("an invalid version of Kubernetes is quoted and not interpreted") {
    Fixture f;
    for (const char* version : {"", "1.31.1", "v2.31.1", "v1.", "v1.31", "v1.x.1", "v1.-3.1",
                                "v1.99999999999999999999.1", "v1.31-1"}) {
      CAPTURE(version);
      const auto found = f.minor_of(std::string(version));
      REQUIRE_FALSE(found.ok());
      CHECK(found.error().code == ErrorCode::kInvalidSyntax);
      CHECK(found.error().message == "https://cluster: '" + std::string(version) +
                                         "' is no version of Kubernetes, like v1.31.1");
    }
  }

  TEST_CASE("a server that does not answer has none") {
    Fixture f;
    for (const ErrorCode code : {ErrorCode::kUnavailable, ErrorCode::kPermissionDenied}) {
      const auto found = f.minor_of(Error{code, "no answer"});
      REQUIRE_FALSE(found.ok());
      CHECK(found.error().code == code);
    }
  }
}

}  // namespace
