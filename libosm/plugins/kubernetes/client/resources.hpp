// Resources of the API server that the plugin reads or writes; kinds of the mesh have their names
// in spec::mesh_kinds(). RBAC grants these and no others (charts/osm).
#pragma once

#include "kubernetes/client/api.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
inline constexpr Resource kNodes{"", "v1", "nodes", "Node", false};
inline constexpr Resource kServices{"", "v1", "services", "Service"};
inline constexpr Resource kServiceAccounts{"", "v1", "serviceaccounts", "ServiceAccount"};
inline constexpr Resource kPods{"", "v1", "pods", "Pod"};
inline constexpr Resource kSecrets{"", "v1", "secrets", "Secret"};
inline constexpr Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline constexpr Resource kEvents{"events.k8s.io", "v1", "events", "Event"};
inline constexpr Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices",
                                          "EndpointSlice"};
inline constexpr Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                "CustomResourceDefinition", false};
inline constexpr Resource kMutatingWebhooks{"admissionregistration.k8s.io", "v1",
                                            "mutatingwebhookconfigurations",
                                            "MutatingWebhookConfiguration", false};
inline constexpr Resource kValidatingWebhooks{"admissionregistration.k8s.io", "v1",
                                              "validatingwebhookconfigurations",
                                              "ValidatingWebhookConfiguration", false};
inline constexpr Resource kMeshConfigs{"config.openservicemesh.io", "v1alpha2", "meshconfigs",
                                       "MeshConfig"};
inline constexpr Resource kMeshRootCertificates{"config.openservicemesh.io", "v1alpha2",
                                                "meshrootcertificates", "MeshRootCertificate"};

// The API server's names of a kind of the mesh. Lifetime: the texts are the kind's.
inline Resource resource_of(const spec::Kind& kind) {
  return {kind.name.group, kind.version, kind.plural, kind.name.kind,
          kind.scope != spec::Scope::kCluster};
}

}  // namespace osm::inline v1::kubernetes
