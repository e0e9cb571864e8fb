#include "inject/recent_injections.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/json.hpp"
#include "inject/pod_names.hpp"

namespace osm::inline v1::inject {
namespace {

// An API server calls again at once. A pod of the same name cannot be made anew so soon, since the
// first one must end before.
constexpr std::chrono::seconds kRecent{10};

std::string creation_of(const AdmissionRequest& request, const std::string& uuid) {
  const boost::json::object& metadata = v1::map_at(request.object, "metadata");
  return fmt::format("{}/{}/{}/{}", request.ns, text_at(metadata, "name"),
                     text_at(metadata, "generateName"), uuid);
}

}  // namespace

std::optional<RecentInjection> RecentInjections::find(const AdmissionRequest& request) {
  const std::string uuid =
      text_at(v1::map_at(v1::map_at(request.object, "metadata"), "labels"), kProxyUuidLabel);
  if (uuid.empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(creation_of(request, uuid));
  if (found == entries_.end() || clock_.steady_now() - found->second.at >= kRecent)
    return std::nullopt;
  return found->second.injection;
}

void RecentInjections::add(const AdmissionRequest& request, RecentInjection injection) {
  const std::lock_guard lock(mutex_);
  const SteadyTime now = clock_.steady_now();
  std::erase_if(entries_, [&](const auto& entry) { return now - entry.second.at >= kRecent; });
  std::string key = creation_of(request, injection.proxy.str());
  entries_.insert_or_assign(std::move(key), Entry{now, std::move(injection)});
}

}  // namespace osm::inline v1::inject
