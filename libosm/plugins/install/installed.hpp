// Objects in a cluster that `osm install` applied.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/client/api.hpp"
#include "kubernetes/client/resources.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kInstaller = "osm-install";  // field manager; the daemons are "osm"
// Differences from the chart's values, which `osm upgrade` keeps.
inline constexpr const char* kValuesConfigMap = "osm-values";
inline constexpr const char* kValuesKey = "values.json";

inline constexpr Resource kDeployments{"apps", "v1", "deployments", "Deployment"};
inline constexpr Resource kDaemonSets{"apps", "v1", "daemonsets", "DaemonSet"};
// Kubernetes 1.29 and earlier have them not.
inline constexpr Resource kAdmissionPolicies{"admissionregistration.k8s.io", "v1",
                                             "validatingadmissionpolicies",
                                             "ValidatingAdmissionPolicy", false};
inline constexpr Resource kAdmissionPolicyBindings{"admissionregistration.k8s.io", "v1",
                                                   "validatingadmissionpolicybindings",
                                                   "ValidatingAdmissionPolicyBinding", false};
// The kinds of the chart, in the order in which they are deleted: webhooks first, so that nothing
// is refused meanwhile.
inline constexpr std::array kInstalled{
    kMutatingWebhooks,
    kValidatingWebhooks,
    kAdmissionPolicyBindings,
    kAdmissionPolicies,
    Resource{"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"},
    kDaemonSets,
    kDeployments,
    Resource{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"},
    Resource{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"},
    kServices,
    kConfigMaps,
    Resource{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"},
    Resource{"rbac.authorization.k8s.io", "v1", "roles", "Role"},
    Resource{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", false},
    Resource{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false},
    kServiceAccounts,
    kCrds,
    kNamespaces,
};

bool is_webhook(const Resource& resource);

// The namespaces of the Services that a webhook configuration calls, and of the accounts of a
// binding.
std::set<std::string> homes_of(const boost::json::object& object);

// Annotation of a namespace that an installation made, and so an uninstallation deletes.
inline constexpr const char* kMadeNamespace = "openservicemesh.io/made-by-osm-install";

// The part that an object of the chart, as it is in the cluster, still lacks: "1 of 2 pods are
// available". Empty: none.
std::string missing_of(const Resource& resource, const boost::json::object& present);

// "Deployment osm-system/osm-controller"
std::string display_name(const Resource& resource, const Metadata& metadata);

// True if `manager`, an element of metadata.managedFields, is server-side apply as `by`.
bool is_applied(const boost::json::value& manager, std::string_view by);

// True if `osm install` has applied the object.
bool is_installed(const boost::json::object& object);

// The objects of one kind that `osm install` applied for a mesh in a namespace; neither CRDs nor
// namespaces. A kind that the cluster lacks has none. Failure, blocking: as list_all.
Result<std::vector<boost::json::object>> list_installed(Api& api, const Resource& resource,
                                                        const std::string& mesh_name,
                                                        const std::string& osm_namespace);

}  // namespace osm::inline v1::kubernetes
