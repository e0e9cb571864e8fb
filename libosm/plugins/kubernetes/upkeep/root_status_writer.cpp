#include "kubernetes/upkeep/root_status_writer.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/event_writer.hpp"
#include "kubernetes/upkeep/status_writer.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kRootPeriod{1};   // the reason of a wait changes all the time
constexpr double kRootBurst = 10;                // objects at once, then
constexpr std::chrono::seconds kRootSpacing{1};  // one every
constexpr std::size_t kMaxRootMessage = 4096;

}  // namespace

RootStatusWriter::RootStatusWriter(const UpkeepOptions& options, std::function<bool()> may_write)
    : api_(options.cluster.api()),
      runtime_(options.runtime),
      roots_(*options.roots),
      ns_(options.osm_namespace),
      may_write_(std::move(may_write)),
      budget_(runtime_.clock, kRootBurst, kRootSpacing),
      strand_(runtime_.blocking),
      round_(strand_, runtime_.rng,
             {.turn =
                  [this] {
                    write_all();
                    return Pause{kRootPeriod};
                  },
              .may_run = may_write_,
              .forget = [this] { written_.clear(); },
              .ask_again = {kRootPeriod}}) {
  round_.wake();
}

void RootStatusWriter::write_all() {
  for (const RootStatus& root : roots_.roots()) {
    const auto object = roots_.store.get({kinds::kMeshRootCertificate, ns_, root.name});
    if (!object || root.role.empty() || root.name == kOwnRoot) {  // there is no such object
      written_.erase(root.name);
      continue;
    }
    std::string message = root.waiting_for;
    if (message.empty() && !root.left_behind.empty())
      message = "went on without " + root.left_behind;
    const Said said{text_at(map_at(*object->document, "metadata"), "uid"), root.state,
                    cut(std::move(message), kMaxRootMessage)};
    const Said* before = find_in(written_, root.name);
    if (before && *before == said) continue;
    if (!may_write_() || !budget_.take()) return;
    if (write(root.name, said)) written_[root.name] = said;
  }
}

// True also for a removed object.
bool RootStatusWriter::write(const std::string& name, const Said& said) {
  const json::object body{{"status", {{"state", said.state}, {"message", said.message}}}};
  const auto patched = api_.patch(
      kMeshRootCertificates, ns_, name,
      {.type = PatchType::kMerge, .body = json::serialize(body), .subresource = "status"});
  const bool failed = !patched.ok() && patched.error().code != ErrorCode::kNotFound;
  if (round_.first_failure(failed ? Status(patched.error()) : Status()))
    runtime_.log.warning("the status of a MeshRootCertificate cannot be written",
                         {{"name", name}, {"detail", patched.error().text()}});
  if (failed) return false;
  if (patched.ok())
    runtime_.metrics.add(kStatusWritten, {{"kind", std::string(kMeshRootCertificates.kind)}}, 1);
  return true;
}

}  // namespace osm::inline v1::kubernetes
