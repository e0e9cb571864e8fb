// Objects in a cluster that `osm install` applied.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/client/api.hpp"
#include "kubernetes/client/resources.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr const char* kInstaller = "osm-install";  // field manager; the daemons are "osm"

inline constexpr Resource kDeployments{"apps", "v1", "deployments", "Deployment"};
// The kinds of the chart, in the order in which they are deleted: webhooks first, so that nothing
// is refused meanwhile.
inline constexpr std::array kInstalled{
    kMutatingWebhooks,
    kValidatingWebhooks,
    Resource{"autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"},
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

// "Deployment osm-system/osm-controller"
std::string display_name(const Resource& resource, const Metadata& metadata);

// True if `manager`, an element of metadata.managedFields, is server-side apply as `by`.
bool is_applied(const boost::json::value& manager, std::string_view by);

// True if `osm install` has applied the object.
bool is_installed(const boost::json::object& object);

// The objects of one kind that `osm install` applied for a mesh in a namespace; neither CRDs nor
// namespaces. Failure, blocking: as list_all.
Result<std::vector<boost::json::object>> list_installed(Api& api, const Resource& resource,
                                                        const std::string& mesh_name,
                                                        const std::string& osm_namespace);

}  // namespace osm::inline v1::kubernetes
