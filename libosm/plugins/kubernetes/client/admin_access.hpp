// Names that both sides of the admin API's protection share.
#pragma once

#include <string>
#include <string_view>

#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

inline constexpr Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews",
                                        "TokenReview", false};
inline constexpr std::string_view kViewer = "osm-viewer", kAdmin = "osm-admin";
inline constexpr std::string_view kAdminTokenHeader = "X-Osm-Admin-Token";

// A token is for one pod, so that a controller that is not genuine cannot use it for another, and
// the API server takes it for nothing else.
inline std::string admin_audience(const std::string& ns, const std::string& replica) {
  return "openservicemesh.io/admin/" + ns + '/' + replica;
}

// ServiceAccount whose token a request needs.
inline std::string_view admin_account(std::string_view method) {
  return method == "GET" ? kViewer : kAdmin;
}

}  // namespace osm::inline v1::kubernetes
