// The writer of a mesh directory changes its own files only, and loses no change of another one.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "lib/temporary_directory.hpp"
#include "lib/writer_contract.hpp"
#include "osm/spec/directory_store.hpp"

using namespace osm;

namespace {

const ObjectKey kLost{kinds::kDenylist, "osm-system", "lost"};

struct DirectoryWriterFixture {
  static Object object(const std::string& text) {
    const auto objects = spec::read_objects(text, "test");
    REQUIRE_MESSAGE(objects.ok(), objects.error().text());
    return *objects->front();
  }
  static Object denylist(const std::string& name) {
    return object(
        "{apiVersion: workload.openservicemesh.io/v1alpha1, kind: Denylist, metadata: {name: " +
        name + ", namespace: osm-system}, spec: {serviceAccounts: [], proxyUUIDs: [], reason: x}}");
  }
  static Object root(const std::string& name, const std::string& role) {
    return object(
        "{apiVersion: config.openservicemesh.io/v1alpha2, kind: MeshRootCertificate, metadata: "
        "{name: " +
        name + ", namespace: osm-system}, spec: {role: " + role +
        ", trustDomain: cluster.local, provider: {tresor: {ca: {secretRef: {name: " + name +
        ", namespace: osm-system}}}}}}");
  }
  static bool contains(const std::string& text, std::string_view part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text);
    return found;
  }
  std::string version(const ObjectKey& key) {
    const auto stored = writer->read(key);
    REQUIRE_MESSAGE(stored.ok(), stored.error().text());
    return stored->version;
  }

  osm::testing::TemporaryDirectory mesh;
  std::unique_ptr<spec::ObjectWriter> writer =
      spec::make_directory_writer(mesh.str(), std::chrono::milliseconds(50));
};

TEST_SUITE("spec::make_directory_writer") {
  TEST_CASE_FIXTURE(DirectoryWriterFixture, "the contract of writers is kept") {
    osm::testing::check_writer_contract(*writer);
    CHECK(std::distance(std::filesystem::directory_iterator(mesh.path()), {}) == 1);
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture, "two writers at once lose no object") {
    const auto fill = [&](const std::string& prefix) {
      const auto own = spec::make_directory_writer(mesh.str(), std::chrono::seconds(30));
      bool written = true;
      for (int number = 0; number < 8; ++number)
        written &= own->write(denylist(prefix + std::to_string(number)), "").ok();
      return written;
    };
    auto other = std::async(std::launch::async, fill, "b");
    CHECK(fill("a"));
    CHECK(other.get());
    for (const char* name : {"a0", "a7", "b0", "b7"})
      CHECK_FALSE(version({kinds::kDenylist, "osm-system", name}).empty());
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture, "each kind has a file, which people can read") {
    REQUIRE(writer->write(denylist("lost"), "").ok());
    REQUIRE(writer->write(root("one", "active"), "").ok());
    REQUIRE(writer->write(root("two", "active"), "").ok());
    const ObjectKey one{kinds::kMeshRootCertificate, "osm-system", "one"};
    REQUIRE(writer->write(root("one", "inactive"), version(one)).ok());
    CHECK(mesh.read("osm-denylist.yaml") ==
          "# Written by `osm deny`: identities that the mesh refuses.\n"
          "---\n"
          "apiVersion: workload.openservicemesh.io/v1alpha1\n"
          "kind: Denylist\n"
          "metadata: {\"name\":\"lost\",\"namespace\":\"osm-system\"}\n"
          "spec:\n"
          "  serviceAccounts: []\n"
          "  proxyUUIDs: []\n"
          "  reason: \"x\"\n");
    const std::string roots = mesh.read("osm-root-certificates.yaml");
    CHECK(roots.starts_with(
        "# Written by `osm certificate rotate`: the roots of the mesh, the newest last.\n"
        "---\n"
        "apiVersion: config.openservicemesh.io/v1alpha2\n"
        "kind: MeshRootCertificate\n"
        "metadata: {\"name\":\"one\",\"namespace\":\"osm-system\"}\n"
        "spec:\n"
        "  role: \"inactive\"\n"));
    CHECK(roots.find("\"one\"") < roots.find("\"two\""));
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture, "names of members that YAML reads otherwise are kept") {
    const std::string meta =
        "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: Denylist\n"
        "metadata: {name: lost, namespace: osm-system}\n";
    const Object odd = object(meta +
                              "\"top: x\": 1\n"
                              "spec: {\"note: x\": 1, \"a #b\": two, \" #\": 3, \"null\": 4, "
                              "\"- c\": 5, \"7\": 6, \"tab\\t\": 7}\n");
    REQUIRE(writer->write(odd, "").ok());
    REQUIRE(writer->write(denylist("other"), "").ok());
    const auto stored = writer->read(kLost);
    REQUIRE_MESSAGE(stored.ok(), stored.error().text());
    CHECK(*stored->object->document == *odd.document);
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture,
                    "an object that is there twice is replaced as a whole") {
    const auto twice = [&] {
      const std::string one =
          "---\n{apiVersion: workload.openservicemesh.io/v1alpha1, kind: Denylist, metadata: "
          "{name: lost, namespace: osm-system}, spec: {reason: ";
      mesh.write("osm-denylist.yaml", one + "one}}\n" + one + "two}}\n");
    };
    twice();
    REQUIRE(writer->write(denylist("lost"), version(kLost)).ok());
    CHECK(contains(mesh.read("osm-denylist.yaml"), "reason: \"x\""));
    CHECK(mesh.read("osm-denylist.yaml").find("two") == std::string::npos);
    twice();
    REQUIRE(writer->remove(kLost, version(kLost)).ok());
    CHECK(version(kLost).empty());
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture, "an object that another file has is refused") {
    std::filesystem::create_directory(mesh.path() / "lists");
    mesh.write("lists/mine.yaml",
               "{apiVersion: workload.openservicemesh.io/v1alpha1, kind: Denylist, metadata: "
               "{name: lost, namespace: osm-system}, spec: {}}");
    const auto read = writer->read(kLost);
    CHECK(read.error().code == ErrorCode::kConflict);
    CHECK(contains(read.error().message,
                   "Denylist osm-system/lost is in another file, " + mesh.file("lists/mine.yaml")));
    CHECK(writer->write(denylist("lost"), "").error().code == ErrorCode::kConflict);
    CHECK_FALSE(std::filesystem::exists(mesh.file("osm-denylist.yaml")));
    CHECK(writer->write(denylist("other"), "").ok());
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture,
                    "objects of other kinds are refused, and stay in the writer's own file") {
    const Object ns = object("{apiVersion: v1, kind: Namespace, metadata: {name: kept}}");
    CHECK(writer->write(ns, "").error().code == ErrorCode::kInvalidArgument);
    CHECK(writer->read(ns.key).error().code == ErrorCode::kInvalidArgument);
    mesh.write("osm-denylist.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: kept}}");
    const std::string before = mesh.read("osm-denylist.yaml");
    const auto written = writer->write(denylist("lost"), "");
    CHECK(written.error().code == ErrorCode::kConflict);
    CHECK(contains(written.error().message, "move Namespace kept to another file"));
    CHECK(mesh.read("osm-denylist.yaml") == before);
    mesh.write("osm-denylist.yaml", "{not: [closed");
    CHECK(writer->write(denylist("lost"), "").error().code == ErrorCode::kInvalidSyntax);
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture,
                    "nothing is written while another writer has the lock") {
    const Descriptor other(::open(mesh.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(other.get(), LOCK_EX) == 0);
    const auto written = writer->write(denylist("lost"), "");
    CHECK(written.error().code == ErrorCode::kConflict);
    CHECK(contains(written.error().message, "holds the lock"));
    CHECK(version(kLost).empty());
    REQUIRE(::flock(other.get(), LOCK_UN) == 0);
    CHECK(writer->write(denylist("lost"), "").ok());
  }

  TEST_CASE_FIXTURE(DirectoryWriterFixture, "a directory that does not exist is named") {
    const auto nowhere = spec::make_directory_writer(mesh.file("none"), {});
    CHECK(nowhere->read(kLost).error().code == ErrorCode::kStorage);
    CHECK(nowhere->write(denylist("lost"), "").error().code == ErrorCode::kStorage);
  }
}

}  // namespace
