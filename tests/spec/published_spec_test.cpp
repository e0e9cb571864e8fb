// A published state is compared with the former one: each difference is told once, and unchanged
// values keep their pointers.
#include "osm/spec/published_spec.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace osm;

namespace {

const ObjectKey kBuyer{kinds::kTrafficTarget, "shop", "buyer"};
const ObjectKey kOther{kinds::kTrafficTarget, "shop", "other"};

std::shared_ptr<const smi::TrafficTarget> target(const std::string& name,
                                                 const std::string& source) {
  return std::make_shared<const smi::TrafficTarget>(
      smi::TrafficTarget{{"shop", name}, {"shop", "store"}, {{"shop", source}}, {}});
}

std::shared_ptr<const Service> service(const std::string& address) {
  Service out;
  out.name = {"shop", "store"};
  out.cluster_ip = address;
  return std::make_shared<const Service>(std::move(out));
}

// Values of its own each time, as a host makes them that reads all of its data again.
SpecSnapshot shop(const std::string& source = "buyer") {
  SpecSnapshot out;
  out.synced = true;
  out.namespaces = {"shop"};
  out.services = Table<Service>({service("10.1.0.1")});
  out.targets = Table<smi::TrafficTarget>({target("buyer", source), target("other", "buyer")});
  return out;
}

struct Mesh {
  Mesh() {
    spec.publish(shop());
    told.clear();
  }
  std::vector<SpecChange> take() { return std::exchange(told, {}); }

  spec::PublishedSpec spec;
  std::vector<SpecChange> told;
  Subscription subscription =
      spec.subscribe([this](const SpecChange& change) { told.push_back(change); });
};

TEST_SUITE("spec::PublishedSpec") {
  TEST_CASE("it is empty and not synced before the first state") {
    const spec::PublishedSpec spec;
    REQUIRE(spec.snapshot());
    REQUIRE(spec.snapshot()->config);
    CHECK_FALSE(spec.has_synced());
    CHECK(spec.list_services().empty());
    CHECK(spec.list_problems().empty());
  }

  TEST_CASE("each difference is told once, with its state, and equal values not at all") {
    Mesh mesh;
    mesh.spec.publish(shop("guest"));
    const auto told = mesh.take();
    REQUIRE(told.size() == 1);
    CHECK(told[0].keys == std::vector<ObjectKey>{kBuyer});
    CHECK(told[0].snapshot == mesh.spec.snapshot());
    CHECK_FALSE(told[0].problems);
    CHECK(told[0].snapshot->targets.find({"shop", "buyer"})->sources[0].name == "guest");
    mesh.spec.publish(shop("guest"));
    CHECK(mesh.take().empty());
  }

  TEST_CASE("equal values and tables keep their pointers, whoever made the new ones") {
    Mesh mesh;
    const auto before = mesh.spec.snapshot();
    mesh.spec.publish(shop("guest"));
    const auto after = mesh.spec.snapshot();
    CHECK(after->targets.find({"shop", "other"}) == before->targets.find({"shop", "other"}));
    CHECK(after->targets.find({"shop", "buyer"}) != before->targets.find({"shop", "buyer"}));
    CHECK(&after->services.list() == &before->services.list());
    CHECK(after->config == before->config);
    mesh.spec.publish(shop("guest"));
    CHECK(mesh.spec.snapshot() == after);
  }

  TEST_CASE("added and removed objects, namespaces and the MeshConfig are told in order") {
    Mesh mesh;
    SpecSnapshot next = shop();
    next.targets = next.targets.without({"shop", "buyer"}).with(target("middle", "buyer"));
    next.namespaces.insert(next.namespaces.end(), {"annex", "shop"});
    MeshConfig config;
    config.proxy.permissive = true;
    next.config = std::make_shared<const MeshConfig>(config);
    next.config_key = {kinds::kMeshConfig, "osm-system", "osm-mesh-config"};
    mesh.spec.publish(next);
    const auto told = mesh.take();
    REQUIRE(told.size() == 1);
    CHECK(told[0].keys == std::vector<ObjectKey>{next.config_key,
                                                 {kinds::kNamespace, "", "annex"},
                                                 kBuyer,
                                                 {kinds::kTrafficTarget, "shop", "middle"}});
    const auto targets = mesh.spec.list_traffic_targets();
    REQUIRE(targets.size() == 2);
    CHECK(targets[0]->name.name == "middle");
    CHECK(targets[1]->name.name == "other");
    CHECK(mesh.spec.get_mesh_config().proxy.permissive);
    CHECK(mesh.spec.control_plane_namespace() == "osm-system");
    CHECK(mesh.spec.list_namespaces() == std::vector<std::string>{"annex", "shop"});
  }

  TEST_CASE("problems and synchronization alone are told without keys") {
    Mesh mesh;
    const std::vector<Problem> problems{{ErrorCode::kInvalidField, kOther, "", 0, "spec", "odd"}};
    mesh.spec.publish(shop(), problems);
    auto told = mesh.take();
    REQUIRE(told.size() == 1);
    CHECK(told[0].keys.empty());
    CHECK(told[0].problems);
    CHECK(mesh.spec.list_problems() == problems);
    SpecSnapshot stale = shop();
    stale.synced = false;
    mesh.spec.publish(stale, problems);
    told = mesh.take();
    REQUIRE(told.size() == 1);
    CHECK(told[0].keys.empty());
    CHECK_FALSE(told[0].problems);
    CHECK_FALSE(mesh.spec.has_synced());
  }

  TEST_CASE("lists read the state now") {
    Mesh mesh;
    CHECK(mesh.spec.get_service({"shop", "store"})->cluster_ip == "10.1.0.1");
    CHECK(mesh.spec.get_service({"shop", "gone"}) == nullptr);
    CHECK(mesh.spec.list_service_accounts() ==
          std::vector<ServiceAccount>{{"shop", "buyer"}, {"shop", "store"}});
    CHECK(mesh.spec.list_all_service_accounts().empty());
    SpecSnapshot next = shop();
    next.accounts =
        next.accounts.with(std::make_shared<const ServiceAccount>(ServiceAccount{"shop", "buyer"}));
    mesh.spec.publish(next);
    CHECK(mesh.spec.list_all_service_accounts() == std::vector<ServiceAccount>{{"shop", "buyer"}});
    CHECK(mesh.take().back().keys ==
          std::vector<ObjectKey>{{kinds::kServiceAccount, "shop", "buyer"}});
  }
}

}  // namespace
