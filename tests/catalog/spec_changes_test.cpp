// The builder finds each difference of the specification, whichever event came.
#include "catalog/spec_changes.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "built_mesh.hpp"
#include "mesh_values.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

const ObjectKey kBuyer{kinds::kTrafficTarget, kNs, "buyer"};

struct Shop : BuiltMesh {
  Shop() {
    spec.put(target("buyer", "store", {"buyer"}, {}));
    spec.put(target("other", "store", {"buyer"}, {}));
    spec.put(service("store", "10.1.0.1"));
    next();
  }
};

}  // namespace

TEST_SUITE("catalog::SpecChanges") {
  TEST_CASE("an object whose event is late is found, and told once") {
    Shop shop;
    shop.spec.put(target("buyer", "store", {"guest"}, {}));
    shop.builder.endpoints_changed({service_name("store")});  // the only event so far
    CHECK(shop.next().changes.objects == std::set{kBuyer});
    CHECK(shop.last->objects == shop.spec.snapshot());
    CHECK(shop.builder.build() == nullptr);  // its own event
  }

  TEST_CASE("ServiceAccounts and CAs make no generation and no record") {
    Shop shop;
    MeshRootCertificate root;
    root.name = "first";
    shop.spec.put(root);
    CHECK(shop.builder.build() == nullptr);
    CHECK(shop.builder.object_changes().empty());
    shop.spec.put_service_account(account("unused"));
    CHECK(shop.builder.build() == nullptr);
    CHECK(shop.builder.object_changes().empty());
  }

  TEST_CASE("differences are sorted by what the stages ask for") {
    Shop shop;
    const auto before = shop.spec.snapshot();
    shop.spec.put(target("middle", "store", {"buyer"}, {}));
    shop.spec.remove(kBuyer);
    shop.spec.remove({kinds::kService, kNs, "store"});
    shop.spec.put_service_account(account("buyer"));
    const SpecChanges changes = changes_between(*before, *shop.spec.snapshot());
    const std::map<ObjectKey, bool> objects{{{kinds::kService, kNs, "store"}, false},
                                            {kBuyer, false},
                                            {{kinds::kTrafficTarget, kNs, "middle"}, true}};
    CHECK(changes.objects == objects);
    CHECK(changes.services == std::set{service_name("store")});
    CHECK(changes.targets == std::set<smi::ObjectName>{{kNs, "buyer"}, {kNs, "middle"}});
    CHECK(changes.accounts);
    CHECK_FALSE(changes.namespaces);
    CHECK_FALSE(changes.splits);
    CHECK_FALSE(changes.routes);
  }

  TEST_CASE("a namespace that turns and an object that changed with it are both found") {
    Shop shop;
    shop.spec.put(target("other", "store", {"guest"}, {}));
    shop.spec.put_namespace("annex");
    CHECK(shop.next().changes.objects ==
          std::set<ObjectKey>{{kinds::kNamespace, "", "annex"},
                              {kinds::kTrafficTarget, kNs, "other"}});
  }
}
