// ServiceProvider, workload.openservicemesh.io/v1alpha1. One fault leaves the whole object out:
// part of an order would be another order.
#include <set>

#include "osm/values/service_provider.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::int64_t kMostWeight = 1'000'000;

ServiceProvider::Provider provider_of(const Field& element, std::set<std::string>& seen) {
  ServiceProvider::Provider provider;
  const auto [map, name, weight] = element.required_map("name", "weight");
  if (!map) return provider;
  provider.id = required_label(name);
  if (const auto written = weight.integer(0, kMostWeight))
    provider.weight = static_cast<std::uint32_t>(*written);
  if (!provider.id.empty() && !seen.insert(provider.id).second)
    name.refuse("names " + provider.id + " a second time; give each provider once");
  return provider;
}

}  // namespace

DecodedPolicy decode_service_provider(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  ServiceProvider out;
  const auto [map, service, providers, others] =
      reader.root()["spec"].required_map("service", "providers", "others");
  if (map) {
    out.service = {object.key.ns, required_label(service)};
    std::set<std::string> seen;
    for (const Field& element : providers.required().list())
      out.providers.push_back(provider_of(element, seen));
    if (out.providers.empty() && providers.present())
      providers.refuse("must name at least one endpoints provider, such as kubernetes");
    out.excludes_others = choice_of<bool>(others, {{"Append", false}, {"Exclude", true}}, false);
  }
  return std::move(reader).finish_policy(std::move(out));
}

}  // namespace osm::inline v1::spec
