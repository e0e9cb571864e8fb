// Every resource of the API server that the plugin reads or writes. RBAC grants these and no others
// (deploy/kubernetes/).
#pragma once

#include <array>

#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr Resource kNamespaces{"", "v1", "namespaces", "Namespace", false};
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
inline constexpr Resource kTrafficTargets{"access.smi-spec.io", "v1alpha3", "traffictargets",
                                          "TrafficTarget"};
inline constexpr Resource kHttpRouteGroups{"specs.smi-spec.io", "v1alpha4", "httproutegroups",
                                           "HTTPRouteGroup"};
inline constexpr Resource kTcpRoutes{"specs.smi-spec.io", "v1alpha4", "tcproutes", "TCPRoute"};
inline constexpr Resource kTrafficSplits{"split.smi-spec.io", "v1alpha2", "trafficsplits",
                                         "TrafficSplit"};
inline constexpr Resource kMeshConfigs{"config.openservicemesh.io", "v1alpha2", "meshconfigs",
                                       "MeshConfig"};
inline constexpr Resource kMeshRootCertificates{"config.openservicemesh.io", "v1alpha2",
                                                "meshrootcertificates", "MeshRootCertificate"};
inline constexpr Resource kEgresses{"policy.openservicemesh.io", "v1alpha1", "egresses", "Egress"};
inline constexpr Resource kIngressBackends{"policy.openservicemesh.io", "v1alpha1",
                                           "ingressbackends", "IngressBackend"};
inline constexpr Resource kRetries{"policy.openservicemesh.io", "v1alpha1", "retries", "Retry"};
inline constexpr Resource kUpstreamTrafficSettings{
    "policy.openservicemesh.io", "v1alpha1", "upstreamtrafficsettings", "UpstreamTrafficSetting"};
inline constexpr Resource kVirtualMachines{"workload.openservicemesh.io", "v1alpha1",
                                           "virtualmachines", "VirtualMachine"};

}  // namespace osm::inline v1::kubernetes
