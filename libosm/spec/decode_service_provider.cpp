// ServiceProvider, workload.openservicemesh.io/v1alpha1. One fault leaves the whole object out:
// part of an order would be another order.
#include <set>

#include "osm/values/service_provider.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::int64_t kMostWeight = 1'000'000;

ServiceProvider::Provider provider_of(const Field& element) {
  ServiceProvider::Provider provider;
  if (!element.required_map({"name", "weight"})) return provider;
  provider.id = required_label(element["name"]);
  if (const auto weight = element["weight"].integer(0, kMostWeight))
    provider.weight = static_cast<std::uint32_t>(*weight);
  return provider;
}

}  // namespace

DecodedPolicy decode_service_provider(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const Field spec = reader.root()["spec"];
  ServiceProvider out;
  if (spec.required_map({"service", "providers", "others"})) {
    out.service = {object.key.ns, required_label(spec["service"])};
    std::set<std::string> seen;
    for (const Field& element : spec["providers"].required().list()) {
      out.providers.push_back(provider_of(element));
      const std::string& id = out.providers.back().id;
      if (!id.empty() && !seen.insert(id).second)
        element["name"].refuse("names " + id + " a second time; give each provider once");
    }
    if (out.providers.empty() && spec["providers"].present())
      spec["providers"].refuse("must name at least one endpoints provider, such as kubernetes");
    out.excludes_others =
        choice_of<bool>(spec["others"], {{"Append", false}, {"Exclude", true}}, false);
  }
  DecodedPolicy decoded;
  if (reader.findings().valid()) {
    PolicyReach reach{.everything = false, .accounts = {}, .services = {out.service}};
    decoded.value = std::make_shared<const Policy>(object.key, std::move(reach), std::move(out));
  }
  decoded.problems = std::move(reader.findings()).take(object.key);
  return decoded;
}

}  // namespace osm::inline v1::spec
