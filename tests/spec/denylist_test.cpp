// Denylists are united, and a bad element takes no other away.
#include "osm/values/denylist.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "model/links.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

const std::string kApi = "workload.openservicemesh.io/v1alpha1";
const std::string kUuid = "11111111-1111-4111-8111-111111111111";
const std::string kOther = "22222222-2222-4222-8222-222222222222";

DecodedPolicy decoded(std::string_view spec) {
  return decode_denylist(object_of(kApi, "Denylist", spec));
}

const Denylist& list_of(const DecodedPolicy& policy) {
  REQUIRE(policy.value);
  return *policy.value->get<Denylist>();
}

std::string yaml(const std::string& name, const std::string& spec,
                 const std::string& ns = "osm-system") {
  return "apiVersion: " + kApi + "\nkind: Denylist\nmetadata: {name: " + name +
         ", namespace: " + ns + "}\nspec: " + spec + "\n";
}

struct Fixture {
  osm::testing::MemoryObjectStore store;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  std::unique_ptr<MeshSpec> spec;

  void put(const std::string& text) { REQUIRE(store.put_yaml(text, "mesh/a.yaml").ok()); }
  void start() { spec = make_mesh_spec({.store = store, .log = log, .metrics = metrics}); }
  // "account shop/a, proxy 1111...": what is denied.
  std::string denied() const {
    std::string out;
    const Denials denials = denials_of(spec->list_policies());
    for (const auto& [account, denial] : denials.accounts)
      out += account.str() + " by " + denial.object.name + "; ";
    for (const auto& [proxy, denial] : denials.proxies)
      out += proxy.str().substr(0, 4) + " by " + denial.object.name + "; ";
    return out;
  }
  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const Problem& problem : spec->list_problems()) out.push_back(problem.text());
    return out;
  }
};

}  // namespace

TEST_SUITE("spec::Denylist") {
  TEST_CASE("all fields are read, ordered, each element once") {
    const DecodedPolicy policy = decoded(
        "serviceAccounts:\n"
        "- {namespace: shop, name: web}\n"
        "- {namespace: shop, name: api.v1}\n"
        "- {namespace: shop, name: web}\n"
        "proxyUUIDs: [" +
        kOther + ", " + kUuid + "]\nreason: a lost laptop");
    CHECK(policy.problems.empty());
    CHECK(model::links_of(*policy.value).entries == std::vector<model::EntryKey>{std::monostate()});
    const Denylist& list = list_of(policy);
    CHECK(list.accounts == std::vector<ServiceIdentity>{{"shop", "api.v1"}, {"shop", "web"}});
    CHECK(list.proxies == std::vector<ProxyId>{ProxyId(kUuid), ProxyId(kOther)});
    CHECK(list.reason == "a lost laptop");
    CHECK(list_of(decoded("{}")) == Denylist());
  }

  TEST_CASE("a bad element is reported with its field, and the others stay denied") {
    const DecodedPolicy policy = decoded(
        "serviceAccounts:\n"
        "- {namespace: shop, name: web}\n"
        "- {namespace: Shop, name: api}\n"
        "- {namespace: shop}\n"
        "- web\n"
        "proxyUUIDs: [" +
        kUuid + ", 7, XYZ]\nreason: 7\nserviceAccount: web");
    const Denylist& list = list_of(policy);
    CHECK(list.accounts == std::vector<ServiceIdentity>{{"shop", "web"}});
    CHECK(list.proxies == std::vector<ProxyId>{ProxyId(kUuid)});
    std::vector<std::string> fields;
    for (const Problem& problem : policy.problems) {
      CHECK(problem.code == ErrorCode::kInvalidField);
      fields.push_back(problem.field);
    }
    std::sort(fields.begin(), fields.end());
    CHECK(fields ==
          std::vector<std::string>{"spec.proxyUUIDs[1]", "spec.proxyUUIDs[2]", "spec.reason",
                                   "spec.serviceAccount", "spec.serviceAccounts[1].namespace",
                                   "spec.serviceAccounts[2].name", "spec.serviceAccounts[3]"});
  }

  TEST_CASE("a list that cannot be read leaves no value, so that the last good one stays") {
    for (const char* spec : {"serviceAccounts: web", "proxyUUIDs: {a: b}", "[]"}) {
      CAPTURE(spec);
      CHECK_FALSE(decoded(spec).value);
      CHECK(decoded(spec).problems.size() == 1);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "all objects of the control plane's namespace are united") {
    put(yaml("b", "{serviceAccounts: [{namespace: shop, name: web}]}"));
    start();
    CHECK(denied() == "shop/web by b; ");
    put(yaml("a",
             "{serviceAccounts: [{namespace: shop, name: web}], proxyUUIDs: [" + kUuid + "]}"));
    CHECK(denied() == "shop/web by a; 1111 by a; ");
    put(yaml("c", "{serviceAccounts: [{namespace: shop, name: api}]}", "shop"));
    CHECK(denied() == "shop/web by a; 1111 by a; ");
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("read in namespace osm-system") != std::string::npos);
    store.remove({kinds::kDenylist, "osm-system", "a"});
    store.remove({kinds::kDenylist, "osm-system", "b"});
    CHECK(denied().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "an unreadable list keeps its last value, and holds a start back") {
    put(yaml("a", "{serviceAccounts: [{namespace: shop, name: web}]}"));
    start();
    put(yaml("a", "{serviceAccounts: web}"));
    CHECK(denied() == "shop/web by a; ");
    CHECK(problems().size() == 1);
    CHECK(spec->has_synced());
    start();  // again: now no earlier value is known
    CHECK_FALSE(spec->has_synced());
    put(yaml("a", "{}"));
    CHECK(spec->has_synced());
  }
}
