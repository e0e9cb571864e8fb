// `osm apply` and others validate objects through a host's writer, without lost updates, and are
// refused where objects are written elsewhere.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <map>
#include <string>

#include "embedding/host.hpp"
#include "osm/inject/validator.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/spec/object_writer.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace osm::embedding_test;

namespace {

namespace json = boost::json;

// A store of one process, whose versions are numbers.
class MemoryWriter final : public spec::ObjectWriter {
 public:
  Result<spec::StoredObject> read(const ObjectKey& key) override {
    const auto at = stored.find(key);
    return at == stored.end() ? spec::StoredObject() : at->second;
  }
  Result<std::string> write(const Object& object, const std::string& expected) override {
    if (before_write) std::exchange(before_write, nullptr)();
    if (stored[object.key].version != expected)
      return Error{ErrorCode::kConflict, object.key.str() + ": was changed"};
    auto made = std::make_shared<Object>(object);
    stored[object.key] = {std::to_string(++versions), made};
    return stored[object.key].version;
  }
  Status remove(const ObjectKey& key, const std::string& expected) override {
    if (stored[key].version != expected)
      return Error{ErrorCode::kConflict, key.str() + ": was changed"};
    stored.erase(key);
    return {};
  }

  std::map<ObjectKey, spec::StoredObject> stored;
  int versions = 0;
  std::function<void()> before_write;
};

const char* const kConfig =
    R"({"apiVersion":"config.openservicemesh.io/v1alpha2","kind":"MeshConfig","metadata":{"name":"osm-mesh-config","namespace":"osm-system"},"spec":{"traffic":{"enablePermissiveTrafficPolicyMode":true}}})";
const ObjectKey kConfigKey{kinds::kMeshConfig, "osm-system", "osm-mesh-config"};

std::string target(const std::string& kind) {
  return R"({"apiVersion":"access.smi-spec.io/v1alpha3","kind":"TrafficTarget","metadata":{"name":"t","namespace":"shop"},"spec":{"destination":{"kind":"ServiceAccount","name":"a","namespace":"shop"},"sources":[{"kind":"ServiceAccount","name":"b","namespace":"shop"}],"rules":[{"kind":")" +
         kind + R"(","name":"r"}]}})";
}

struct Objects {
  Objects() { REQUIRE(host.serves()); }

  net::Response ask(const std::string& method, const std::string& query,
                    const std::string& body = {}, bool writes = true,
                    const std::string& place = "kubernetes") {
    net::AdminApiOptions options{
        .runtime = {executor, executor, host.clock, host.rng, host.log, host.metrics},
        .control_plane = *host.mesh,
        .spec = host.spec,
        .certificates = *host.certificates,
        .store = &store,
        .objects_in = place};
    if (writes) {
      options.writer = &writer;
      options.validator = validator.get();
    }
    net::Request request = net::parse_target("/v1/objects" + query).value();
    request.method = method;
    request.body = body;
    return net::make_admin_api(options)(request);
  }
  // The first object of the answer to a POST of these documents.
  json::object change(const std::string& query, const std::string& documents) {
    const net::Response response = ask("POST", query, R"({"objects":[)" + documents + "]}");
    REQUIRE_MESSAGE(response.status == 200, response.body);
    answer = json::parse(response.body).as_object();
    return answer.at("objects").as_array().at(0).as_object();
  }
  std::string result(const std::string& query, const std::string& documents) {
    const json::object changed = change(query, documents);
    if (changed.contains("error"))
      return json::value_to<std::string>(changed.at("error").at("code")) + ": " +
             json::value_to<std::string>(changed.at("error").at("message"));
    return json::value_to<std::string>(changed.at("result"));
  }
  static bool contains(const std::string& text, std::string_view part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text);
    return found;
  }

  osm::testing::ThreadExecutor executor{2};
  Host host{executor};
  osm::testing::MemoryObjectStore store;
  MemoryWriter writer;
  std::unique_ptr<inject::Validator> validator =
      inject::make_validator({.mesh_spec = host.spec, .metrics = host.metrics, .store = &store});
  json::object answer;
};

}  // namespace

TEST_SUITE("admin: objects") {
  TEST_CASE_FIXTURE(Objects, "an object is created, left alone, replaced and deleted") {
    CHECK(result("/apply?dry_run=true", kConfig) == "created");
    CHECK(answer.at("written") == false);
    CHECK(writer.stored.empty());
    CHECK(result("/apply", kConfig) == "created");
    CHECK(answer.at("written") == true);
    CHECK(result("/apply", kConfig) == "unchanged");
    CHECK(writer.versions == 1);
    const net::Response got =
        ask("GET",
            "?kind=MeshConfig&group=config.openservicemesh.io&namespace=osm-system"
            "&name=osm-mesh-config");
    CHECK(got.status == 200);
    CHECK(contains(got.body, R"("resourceVersion":"1")"));
    std::string other = kConfig;
    other.replace(other.find("true"), 4, "false");
    CHECK(result("/apply", other) == "configured");
    CHECK(contains(result("/delete", kConfig), "allow-deletion"));
    CHECK(result("/apply", target("HTTPRouteGroup")) == "created");
    CHECK(result("/delete", target("HTTPRouteGroup")) == "deleted");
    CHECK(contains(result("/delete", target("HTTPRouteGroup")), "not-found: TrafficTarget shop/t"));
  }

  TEST_CASE_FIXTURE(Objects, "one invalid object keeps all from being written, and says why") {
    const std::string refused = result("/apply", target("NoSuchKind") + ',' + kConfig);
    CHECK(contains(refused, "invalid-field: TrafficTarget shop/t is refused: spec.rules[0].kind"));
    CHECK(answer.at("written") == false);
    CHECK(writer.stored.empty());
    CHECK(contains(
        result("/apply", R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}})"),
        "created"));
  }

  TEST_CASE_FIXTURE(Objects, "an object with a version replaces that version only") {
    std::string versioned = kConfig;
    versioned.replace(versioned.find("\"name\""), 0, "\"resourceVersion\":\"1\",");
    CHECK(contains(result("/apply", versioned), "conflict: MeshConfig osm-system/osm-mesh-config"));
    CHECK(result("/apply", kConfig) == "created");
    CHECK(result("/apply", versioned) == "unchanged");
    std::string other = versioned;
    other.replace(other.find("true"), 4, "false");
    CHECK(result("/apply", other) == "configured");
    CHECK(contains(result("/apply", other), "was changed since version 1; now it has 2"));
  }

  TEST_CASE_FIXTURE(Objects, "an object with the version 0 is created only") {
    std::string absent = kConfig;
    absent.replace(absent.find("\"name\""), 0, "\"resourceVersion\":\"0\",");
    CHECK(result("/apply", absent) == "created");
    CHECK(contains(result("/apply", absent), "was changed since version 0; now it has 1"));
    writer.stored.clear();
    writer.before_write = [&] { writer.stored[kConfigKey].version = "77"; };
    CHECK(contains(result("/apply", absent), "conflict: "));
    CHECK(contains(result("/delete", absent), "conflict: "));
  }

  TEST_CASE_FIXTURE(Objects,
                    "a change without a version wins over a faster one, with one it loses") {
    CHECK(result("/apply", kConfig) == "created");
    std::string other = kConfig;
    other.replace(other.find("true"), 4, "false");
    const auto faster = [&] {
      writer.before_write = [&] { writer.stored[kConfigKey].version = "77"; };
    };
    faster();
    CHECK(result("/apply", other) == "configured");
    std::string versioned = kConfig;
    versioned.replace(versioned.find("\"name\""), 0,
                      "\"resourceVersion\":\"" + writer.stored[kConfigKey].version + "\",");
    faster();
    CHECK(contains(result("/apply", versioned), "conflict: "));
  }

  TEST_CASE_FIXTURE(Objects,
                    "a stored value that is no object is named, and replaced only on purpose") {
    writer.stored[kConfigKey].version = "77";
    const std::string name =
        "?kind=MeshConfig&group=config.openservicemesh.io&namespace=osm-system&name=";
    const net::Response got = ask("GET", name + "osm-mesh-config");
    CHECK(got.status == 400);
    CHECK(contains(got.body, "MeshConfig osm-system/osm-mesh-config: what is stored is no object"));
    CHECK(contains(got.body, "replace it by `osm apply`, or remove it by `osm delete`"));
    CHECK(ask("GET", name + "other").status == 404);
    CHECK(result("/apply", target("HTTPRouteGroup")) == "created");
    CHECK(ask("GET", "?kind=TrafficTarget&group=access.smi-spec.io&namespace=shop&name=t").status ==
          200);
    std::string absent = kConfig;
    absent.replace(absent.find("\"name\""), 0, "\"resourceVersion\":\"0\",");
    CHECK(contains(result("/apply", absent), "conflict: "));
    CHECK(writer.stored[kConfigKey].version == "77");
    CHECK(result("/apply", kConfig) == "configured");
    CHECK(ask("GET", name + "osm-mesh-config").status == 200);
  }

  TEST_CASE_FIXTURE(Objects, "a mesh that is written elsewhere names the place") {
    const std::string body = std::string(R"({"objects":[)") + kConfig + "]}";
    const net::Response cluster = ask("POST", "/apply", body, false);
    CHECK(cluster.status == 400);
    CHECK(contains(cluster.body, "kubectl"));
    CHECK(contains(ask("POST", "/delete", body, false, "/etc/osm/mesh").body,
                   "edit the files in /etc/osm/mesh"));
    REQUIRE(store.put_yaml(kConfig).ok());
    const net::Response listed =
        ask("GET", "?kind=MeshConfig&group=config.openservicemesh.io", {}, false);
    CHECK(listed.status == 200);
    CHECK(contains(listed.body, "enablePermissiveTrafficPolicyMode"));
    CHECK(ask("GET", "?kind=Secret").status == 400);
  }

  TEST_CASE_FIXTURE(Objects,
                    "a Service with a fault is refused, and an unknown field is a warning") {
    const auto service = [](const std::string& spec) {
      return R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop"},"spec":)" +
             spec + '}';
    };
    const std::string refused = result("/apply", service(R"({"clusterIP":"10.96.0.999"})"));
    CHECK(contains(refused, "invalid-field: Service shop/web is refused: spec.clusterIP"));
    CHECK(writer.stored.empty());
    const json::object made =
        change("/apply", service(R"({"clusterIP":"10.96.0.9","selectors":{"app":"web"}})"));
    CHECK(made.at("result") == "created");
    CHECK(contains(json::serialize(made.at("warnings")), "spec.selectors"));
    // The controller may allocate an address.
    CHECK(result("/apply?dry_run=true", service("{}")) == "configured");
  }

  TEST_CASE_FIXTURE(Objects, "a body without objects, or with one twice, is refused") {
    for (
        const std::string& body :
        {std::string("no JSON"), std::string("{}"),
         std::string(
             R"({"objects":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b"}}]})"),
         std::string(R"({"objects":[1]})"),
         R"({"objects":[)" + std::string(kConfig) + ',' + kConfig + "]}",
         std::string(
             R"({"objects":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"}}]})"),
         std::string(
             R"({"objects":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a/b"}}]})")}) {
      CAPTURE(body);
      const net::Response response = ask("POST", "/apply", body);
      CHECK(response.status == 400);
    }
  }
}
