// An object in etcd is replaced only in the version that was read, and each has one key.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "etcd/object_keys.hpp"
#include "lib/writer_contract.hpp"
#include "osm/spec/etcd_store.hpp"

using namespace osm;

namespace {

using etcd_test::contains;
using etcd_test::FakeEtcd;

const ObjectKey kKey{kinds::kMeshConfig, "osm-system", "osm-mesh-config"};
const std::string kPath =
    "/osm/objects/config.openservicemesh.io/MeshConfig/osm-system/osm-mesh-config";

struct Fixture {
  Fixture() {
    client.options.key = "/osm";
    auto made = etcd::make_object_writer(client.options);
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    writer = *std::move(made);
  }
  static Object config(const std::string& version = "") {
    const auto objects = spec::read_objects(
        "{apiVersion: config.openservicemesh.io/v1alpha2, kind: MeshConfig, metadata: {name: "
        "osm-mesh-config, namespace: osm-system" +
            (version.empty() ? "" : ", resourceVersion: '" + version + "'") +
            "}, spec: {traffic: {enablePermissiveTrafficPolicyMode: true}}}",
        "test");
    REQUIRE_MESSAGE(objects.ok(), objects.error().text());
    return *objects->front();
  }
  std::string value() const {
    const std::lock_guard lock(etcd.keys().mutex);
    return *from_base64(etcd.keys().values[kPath].base64);
  }

  mutable FakeEtcd etcd;
  etcd_test::ClientOptions client{{etcd.url()}};
  std::unique_ptr<spec::ObjectWriter> writer;
};

TEST_SUITE("etcd::make_object_writer") {
  TEST_CASE_FIXTURE(Fixture, "the contract of writers is kept") {
    osm::testing::check_writer_contract(*writer);
  }

  TEST_CASE_FIXTURE(Fixture, "an object is created once, and replaced if it is of that version") {
    CHECK(writer->read(kKey)->version.empty());
    const auto made = writer->write(config(), "");
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    CHECK(writer->write(config(), "").error().code == ErrorCode::kConflict);
    const auto stored = writer->read(kKey);
    REQUIRE(stored.ok());
    CHECK(stored->version == *made);
    CHECK(*stored->object->document == *config().document);

    const auto again = writer->write(config(*made), *made);
    REQUIRE_MESSAGE(again.ok(), again.error().text());
    CHECK(*again != *made);
    CHECK_FALSE(contains(value(), "resourceVersion"));
    const auto late = writer->write(config(), *made);
    CHECK(late.error().code == ErrorCode::kConflict);
    CHECK(contains(late.error().message, "MeshConfig osm-system/osm-mesh-config"));
  }

  TEST_CASE_FIXTURE(Fixture, "an object is removed if it is of that version") {
    const std::string version = writer->write(config(), "").value();
    CHECK(writer->remove(kKey, "1").error().code == ErrorCode::kConflict);
    CHECK(writer->remove(kKey, version).ok());
    CHECK(writer->read(kKey)->version.empty());
    CHECK(writer->remove(kKey, version).error().code == ErrorCode::kConflict);
  }

  TEST_CASE("a change whose answer was lost is done, unless another one followed") {
    const auto keys = std::make_shared<etcd_test::Keys>();
    FakeEtcd cut(keys);
    FakeEtcd well(keys);
    cut.set_fault(FakeEtcd::refusal(503, 14, "transport is closing"), true);
    etcd_test::ClientOptions client({cut.url(), well.url()});
    client.options.key = "/osm";
    const auto writer = [&] {  // asks `cut` first
      auto made = etcd::make_object_writer(client.options);
      REQUIRE_MESSAGE(made.ok(), made.error().text());
      return *std::move(made);
    };
    const auto expect_version = [&](const Result<std::string>& written) {
      REQUIRE_MESSAGE(written.ok(), written.error().text());
      CHECK(writer()->read(kKey)->version == *written);
      return *written;
    };
    const std::string first = expect_version(writer()->write(Fixture::config(), ""));
    const std::string second = expect_version(writer()->write(Fixture::config(), first));
    CHECK(second != first);
    CHECK(writer()->remove(kKey, second).ok());
    CHECK(keys->revision == 4);  // each was done once

    const auto followed_by = [&](std::function<void()> other) {
      const std::lock_guard lock(keys->mutex);
      keys->meanwhile = [keys, other = std::move(other)] { keys->meanwhile = other; };
    };
    followed_by([keys] { keys->put(kPath, base64("other"), ""); });
    CHECK(writer()->write(Fixture::config(), "").error().code == ErrorCode::kConflict);
    const std::string other = writer()->read(kKey)->version;
    followed_by([keys] { keys->put(kPath, base64("another"), ""); });
    CHECK(writer()->remove(kKey, other).error().code == ErrorCode::kConflict);
    CHECK(writer()->read(kKey)->version != other);
  }

  TEST_CASE_FIXTURE(Fixture,
                    "a value that is no object has a version, so that it can be replaced") {
    {
      const std::lock_guard lock(etcd.keys().mutex);
      etcd.keys().put(kPath, base64("{not: [closed"), "");
    }
    const auto stored = writer->read(kKey);
    REQUIRE(stored.ok());
    CHECK_FALSE(stored->object);
    CHECK(writer->write(config(), stored->version).ok());
  }

  TEST_CASE_FIXTURE(Fixture, "a key that etcd cannot have, or an object too large, is refused") {
    Object odd = config();
    odd.key.name = "a/../b";
    CHECK(writer->write(odd, "").error().code == ErrorCode::kInvalidArgument);
    Object large = config();
    boost::json::value document = *large.document;
    document.as_object()["spec"] = std::string(1024 * 1024, 'x');
    large.document = std::make_shared<const boost::json::value>(std::move(document));
    CHECK(writer->write(large, "").error().code == ErrorCode::kTooLarge);
    etcd.set_fault(FakeEtcd::refusal(503, 14, "etcdserver: no leader"));
    CHECK(writer->write(config(), "").error().code == ErrorCode::kUnavailable);
  }
}

TEST_SUITE("etcd::ObjectKeys") {
  TEST_CASE("an object has one key, from which it can be read") {
    const etcd::ObjectKeys keys("/osm");
    CHECK(keys.key_of(kKey) == kPath);
    CHECK(keys.object_of(kPath) == kKey);
    const ObjectKey ns{kinds::kNamespace, "", "shop"};
    CHECK(keys.key_of(ns) == "/osm/objects/-/Namespace/-/shop");
    CHECK(keys.object_of("/osm/objects/-/Namespace/-/shop") == ns);
    for (const char* bad :
         {"/osm/objects/", "/osm/objects/-/Namespace/-/", "/osm/objects/-/Namespace/-/-",
          "/osm/objects//Namespace/-/a", "/osm/objects/-/Namespace/a", "/osm/ca",
          "/osm/objects/-/Namespace/-/a/b", "/osm/objects/-/-/-/a",
          "/osm/objects/-/Name space/-/a"})
      CHECK_MESSAGE(!keys.object_of(bad), bad);
    CHECK_FALSE(keys.key_of({kinds::kService, "a/b", "c"}));
    CHECK_FALSE(keys.key_of({kinds::kService, "-", "c"}));
    CHECK(keys.end() == "/osm/objects0");
  }
}

}  // namespace
