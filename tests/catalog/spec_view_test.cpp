// Only the objects that an event names are read and compared.
#include "catalog/spec_view.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "mesh_values.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace osm::catalog;
using namespace osm::catalog::values;

namespace {

struct View {
  View() {
    spec.put(target("buyer", "store", {"buyer"}, {}));
    spec.put(target("other", "store", {"buyer"}, {}));
    spec.put(service("store", "10.1.0.1"));
    view.refresh();
  }
  SpecChanges after(const std::vector<ObjectKey>& keys) {
    view.invalidate(keys);
    return view.refresh();
  }

  osm::testing::MemoryMeshSpec spec;
  SpecView view{spec};
};

ObjectKey target_key(const char* name) { return {kinds::kTrafficTarget, kNs, name}; }

}  // namespace

TEST_SUITE("catalog::SpecView") {
  TEST_CASE("only announced objects are read, and each difference is told once") {
    View v;
    v.spec.put(target("buyer", "store", {"guest"}, {}));
    v.spec.put(target("other", "store", {"guest"}, {}));
    const std::map<ObjectKey, bool> first{{target_key("buyer"), true}};
    CHECK(v.after({target_key("buyer")}).objects == first);
    const auto held = v.view.objects().targets.find({kNs, "other"});
    REQUIRE(held);
    CHECK(held->sources == std::vector<ServiceAccount>{{kNs, "buyer"}});
    const std::map<ObjectKey, bool> second{{target_key("other"), true}};
    CHECK(v.after({target_key("buyer"), target_key("other")}).objects == second);
    CHECK(v.after({target_key("buyer"), target_key("other")}).objects.empty());
  }

  TEST_CASE("added and removed objects keep the list in order") {
    View v;
    v.spec.put(target("middle", "store", {"buyer"}, {}));
    v.spec.remove(target_key("buyer"));
    const std::map<ObjectKey, bool> changes{{target_key("buyer"), false},
                                            {target_key("middle"), true}};
    CHECK(v.after({target_key("middle"), target_key("buyer")}).objects == changes);
    CHECK(v.view.objects().targets.list() == v.spec.list_traffic_targets());
  }

  TEST_CASE("a namespace that turns has every object compared") {
    View v;
    v.spec.put(target("other", "store", {"guest"}, {}));
    v.spec.put_namespace("annex");
    const SpecChanges changes = v.after({{kinds::kNamespace, "", "annex"}});
    CHECK(changes.namespaces);
    CHECK(changes.targets == std::set<smi::ObjectName>{{kNs, "other"}});
  }
}
