// The preset MeshConfig is applied without overwriting edits, and does not replace a deleted one.
#include "kubernetes/upkeep/preset.hpp"

#include <doctest/doctest.h>

#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "osm/kubernetes/backend.hpp"

using namespace osm;
using namespace osm::kubernetes;
using namespace osm::kubernetes_test;

namespace {

struct Fixture : UpkeepFixture {
  // A new version of the installation.
  void install(const std::string& preset) {
    const json::object data{{kPresetKey, preset}};
    if (api.at(kConfigMaps, "osm-system", kPresetConfigMap).empty()) {
      put(kConfigMaps, {{"metadata", {{"name", kPresetConfigMap}, {"namespace", "osm-system"}}},
                        {"data", data}});
    } else {
      api.edit(kConfigMaps, "osm-system", kPresetConfigMap,
               [&](json::object& map) { map["data"] = data; });
    }
    api.forget_writes();
  }
  bool upgrade() {
    const auto done = upgrade_preset(api, "osm-system");
    REQUIRE_MESSAGE(done.ok(), (done.ok() ? "" : done.error().text()));
    return *done;
  }
  void edit(const std::function<void(json::object&)>& change) {
    api.edit(kMeshConfigs, "osm-system", "osm-mesh-config",
             [&](json::object& config) { change(config["spec"].as_object()); });
  }
  std::string spec() {
    return json::serialize(map_at(api.at(kMeshConfigs, "osm-system", "osm-mesh-config"), "spec"));
  }
  static json::object& section(json::object& spec, const char* name) {
    return spec[name].as_object();
  }
};

}  // namespace

TEST_SUITE("kubernetes::upgrade_preset") {
  TEST_CASE_FIXTURE(Fixture, "without a preset nothing is done") {
    CHECK_FALSE(upgrade());
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "without a MeshConfig the preset becomes the MeshConfig") {
    install(R"({"traffic":{"enableEgress":true},"sidecar":{"logLevel":"error"}})");
    CHECK(upgrade());
    CHECK(spec() == R"({"traffic":{"enableEgress":true},"sidecar":{"logLevel":"error"}})");
    api.forget_writes();
    CHECK_FALSE(upgrade());
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that was deleted is not replaced by the preset") {
    install(R"({"traffic":{"enablePermissiveTrafficPolicyMode":false}})");
    const auto record =
        make_backend(
            {.board = {.cluster = cluster, .runtime = runtime, .replica = "a"}, .objects = runtime})
            .last_mesh_config;
    REQUIRE(record->store({"the last one", ""}).ok());
    api.forget_writes();
    CHECK_FALSE(upgrade());
    CHECK(api.writes().empty());
    REQUIRE(api.remove(kConfigMaps, "osm-system", "osm-last-mesh-config", {}).ok());
    CHECK(upgrade());
  }

  TEST_CASE_FIXTURE(Fixture, "no MeshConfig is made while the last one cannot be read") {
    install("{}");
    api.set_fault([](const std::string& call) -> Status {
      if (call.find("osm-last-mesh-config") == std::string::npos) return {};
      return Error{ErrorCode::kPermissionDenied, "configmaps is forbidden"};
    });
    CHECK(upgrade_preset(api, "osm-system").error().code == ErrorCode::kPermissionDenied);
    CHECK(api.writes().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a newer preset is followed, but for what somebody changed") {
    install(R"({"traffic":{"enableEgress":true,"inboundPortExclusionList":[1]},
                "sidecar":{"logLevel":"error","envoyImage":"old"}})");
    upgrade();
    edit([](json::object& spec) {
      section(spec, "sidecar")["logLevel"] = "debug";
      section(spec, "traffic")["enablePermissiveTrafficPolicyMode"] = true;
    });
    install(R"({"traffic":{"enableEgress":false,"inboundPortExclusionList":[1,2],
                           "enablePermissiveTrafficPolicyMode":false},
                "sidecar":{"logLevel":"info","envoyImage":"new"},
                "observability":{"osmLogLevel":"info"}})");
    CHECK(upgrade());
    const json::value now = json::parse(spec());
    CHECK(now.at("traffic").at("enableEgress") == false);
    CHECK(now.at("traffic").at("inboundPortExclusionList") == json::array({1, 2}));
    CHECK(now.at("traffic").at("enablePermissiveTrafficPolicyMode") == true);  // theirs
    CHECK(now.at("sidecar").at("logLevel") == "debug");                        // theirs
    CHECK(now.at("sidecar").at("envoyImage") == "new");
    CHECK(now.at("observability").at("osmLogLevel") == "info");  // a new section
  }

  TEST_CASE_FIXTURE(Fixture, "a field that a user removed stays removed") {
    install(R"({"traffic":{"enableEgress":true},"sidecar":{"logLevel":"error"}})");
    upgrade();
    edit([](json::object& spec) {
      spec.erase("sidecar");
      section(spec, "traffic").erase("enableEgress");
    });
    install(R"({"traffic":{"enableEgress":true},"sidecar":{"logLevel":"error"},"n":{"x":1}})");
    CHECK(upgrade());
    const json::value now = json::parse(spec());
    CHECK_FALSE(now.at("traffic").as_object().contains("enableEgress"));
    CHECK_FALSE(now.as_object().contains("sidecar"));
    CHECK(now.at("n").at("x") == 1);
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that somebody wrote is not opened by a preset") {
    put(kMeshConfigs, {{"metadata", {{"name", "osm-mesh-config"}, {"namespace", "osm-system"}}},
                       {"spec", {{"sidecar", {{"logLevel", "info"}}}}}});
    install(R"({"traffic":{"enablePermissiveTrafficPolicyMode":true}})");
    CHECK(upgrade());  // noted
    CHECK(spec() == R"({"sidecar":{"logLevel":"info"}})");
    install(R"({"traffic":{"enablePermissiveTrafficPolicyMode":true},"a":{"b":1}})");
    CHECK(upgrade());
    CHECK(spec() == R"({"sidecar":{"logLevel":"info"},"a":{"b":1}})");
  }

  TEST_CASE_FIXTURE(Fixture, "a MeshConfig that changes in between is read again") {
    install(R"({"a":{"b":1}})");
    upgrade();
    install(R"({"a":{"b":2}})");
    bool once = true;
    api.set_fault([&](const std::string& call) {
      if (call.rfind("patch meshconfigs", 0) == 0 && std::exchange(once, false))
        edit([](json::object& spec) { section(spec, "a")["b"] = 7; });
      return Status();
    });
    const auto raced = upgrade_preset(api, "osm-system");
    REQUIRE_FALSE(raced.ok());
    CHECK(raced.error().code == ErrorCode::kConflict);
    CHECK(upgrade());
    CHECK(spec() == R"({"a":{"b":7}})");
  }

  TEST_CASE_FIXTURE(Fixture, "a preset that is no JSON is refused with its place") {
    install("a: b");
    const auto done = upgrade_preset(api, "osm-system");
    REQUIRE_FALSE(done.ok());
    CHECK(done.error().message.find("ConfigMap preset-mesh-config: preset-mesh-config.json") == 0);
  }
}
