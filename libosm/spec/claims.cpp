// Claims of policies: parts that no second object of the kind and namespace may have.
#include "osm/values/ingress_backend.hpp"
#include "osm/values/service_provider.hpp"
#include "osm/values/upstream_traffic_setting.hpp"
#include "spec/decode.hpp"

namespace osm::inline v1::spec {

std::vector<Claim> claims_of(const Object& object, const std::string& cluster_domain) {
  if (object.key.is(kinds::kUpstreamTrafficSetting)) {
    const auto policy = decode_upstream_traffic_setting(object, cluster_domain).value;
    const auto* setting = policy ? policy->get<UpstreamTrafficSetting>() : nullptr;
    if (setting == nullptr || setting->service == ServiceName()) return {};
    return {{"spec.host", "Service " + setting->service.str()}};
  }
  if (object.key.is(kinds::kServiceProvider)) {
    const auto policy = decode_service_provider(object).value;
    if (!policy) return {};
    return {{"spec.service", "Service " + policy->get<ServiceProvider>()->service.str()}};
  }
  if (!object.key.is(kinds::kIngressBackend)) return {};
  const auto policy = decode_ingress_backend(object).value;
  if (!policy) return {};
  std::vector<Claim> claims;
  for (const IngressTarget& target : policy->get<IngressBackend>()->backends)
    claims.push_back(
        {"spec.backends[" + std::to_string(target.place) + ']',
         "backend " + target.service.name + " port " + std::to_string(number(target.target_port))});
  return claims;
}

Problem duplicate_claim(const ObjectKey& object, const Claim& claim, const ObjectKey& other) {
  return {ErrorCode::kDuplicateObject,
          object,
          "",
          0,
          claim.field,
          claim.what + " is already in " + other.str() + "; merge the two"};
}

}  // namespace osm::inline v1::spec
