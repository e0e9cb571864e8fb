#include "spec/kinds.hpp"

#include <algorithm>

namespace osm::inline v1::spec {
namespace {

struct Kind {
  std::string_view name;
  std::string_view api_version;
};

constexpr std::array kKinds{
    Kind{kNamespace, "v1"},
    Kind{kService, "v1"},
    Kind{kServiceAccount, "v1"},
    Kind{kTrafficTarget, "access.smi-spec.io/v1alpha3"},
    Kind{kHttpRouteGroup, "specs.smi-spec.io/v1alpha4"},
    Kind{kTcpRoute, "specs.smi-spec.io/v1alpha4"},
    Kind{kTrafficSplit, "split.smi-spec.io/v1alpha2"},
    Kind{kMeshConfig, "config.openservicemesh.io/v1alpha2"},
    Kind{kMeshRootCertificate, "config.openservicemesh.io/v1alpha2"},
    Kind{kEgress, "policy.openservicemesh.io/v1alpha1"},
    Kind{kIngressBackend, "policy.openservicemesh.io/v1alpha1"},
    Kind{kRetry, "policy.openservicemesh.io/v1alpha1"},
    Kind{kUpstreamTrafficSetting, "policy.openservicemesh.io/v1alpha1"},
    Kind{"VirtualMachine", "workload.openservicemesh.io/v1alpha1"},
};

}  // namespace

bool is_unobeyed(std::string_view kind) {
  return std::find(kUnobeyedKinds.begin(), kUnobeyedKinds.end(), kind) != kUnobeyedKinds.end();
}

std::string why_unobeyed(std::string_view kind) {
  return std::string(kind) + " is checked and stored, but nothing here obeys it yet";
}

std::optional<std::string> why_unknown_kind(std::string_view api_version, std::string_view kind) {
  for (const Kind& known : kKinds) {
    if (known.name != kind) continue;
    if (known.api_version == api_version) return std::nullopt;
    return "apiVersion " + std::string(api_version) + " of " + std::string(kind) +
           " is not supported; use " + std::string(known.api_version);
  }
  std::string all;
  for (const Kind& known : kKinds) all.append(all.empty() ? "" : ", ").append(known.name);
  return "the mesh does not use this kind; it reads " + all;
}

}  // namespace osm::inline v1::spec
