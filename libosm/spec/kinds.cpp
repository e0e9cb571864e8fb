#include "spec/kinds.hpp"

#include <array>

namespace osm::spec {
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
    Kind{"VirtualMachine", "workload.openservicemesh.io/v1alpha1"},
};

}  // namespace

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

}  // namespace osm::spec
