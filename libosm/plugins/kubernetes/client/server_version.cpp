#include <charconv>
#include <string_view>

#include "kubernetes/client/api.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::inline v1::kubernetes {

Result<int> server_minor_version(Cluster& cluster) {
  OSM_TRY(const std::string version, cluster.api().server_version());
  constexpr std::string_view kMajor = "v1.";
  int minor = -1;
  if (version.starts_with(kMajor)) {
    const char* begin = version.data() + kMajor.size();
    const auto [at, failed] = std::from_chars(begin, version.data() + version.size(), minor);
    if (failed == std::errc{} && at != version.data() + version.size() && *at == '.' && minor >= 0)
      return minor;
  }
  return Error{ErrorCode::kInvalidSyntax,
               cluster.server() + ": '" + version + "' is no version of Kubernetes, like v1.31.1"};
}

}  // namespace osm::inline v1::kubernetes
