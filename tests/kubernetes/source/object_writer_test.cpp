// Objects of the mesh are written to an API server, each in the version that was read.
#include <doctest/doctest.h>

#include <memory>

#include "kubernetes/client/memory_api.hpp"
#include "lib/writer_contract.hpp"
#include "osm/kubernetes/objects.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

struct ClusterWriterFixture {
  testing::ManualClock clock;
  kubernetes_test::MemoryApiCluster cluster{clock};
  std::unique_ptr<spec::ObjectWriter> writer = kubernetes::make_object_writer(cluster);
};

TEST_SUITE("kubernetes::make_object_writer") {
  TEST_CASE_FIXTURE(ClusterWriterFixture, "the contract of writers is kept") {
    testing::check_writer_contract(*writer);
  }

  TEST_CASE_FIXTURE(ClusterWriterFixture, "a kind that is not of the mesh is refused") {
    const ObjectKey secret{GroupKind{"", "Secret"}, "shop", "one"};
    CHECK(writer->read(secret).error().code == ErrorCode::kInvalidArgument);
    CHECK(writer->remove(secret, "1").error().code == ErrorCode::kInvalidArgument);
    CHECK(cluster.memory.writes().empty());
  }

  TEST_CASE_FIXTURE(ClusterWriterFixture, "a refusal of the server is told") {
    cluster.memory.set_fault([](const std::string&) {
      return Error{ErrorCode::kPermissionDenied, "denylists is forbidden"};
    });
    const auto object = spec::read_objects(
        "{apiVersion: workload.openservicemesh.io/v1alpha1, kind: Denylist, metadata: {name: one, "
        "namespace: osm-system}, spec: {}}",
        "test");
    REQUIRE(object.ok());
    CHECK(writer->write(*object->front(), "").error().code == ErrorCode::kPermissionDenied);
  }
}

}  // namespace
