#include "kubernetes/upkeep/root_status_writer.hpp"

#include <boost/json.hpp>

#include "kubernetes/client/resources.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr std::chrono::seconds kPeriod{1};       // the reason of a wait changes all the time
constexpr double kBurst = 10;                    // objects at once, then
constexpr std::chrono::seconds kRootSpacing{1};  // one every
constexpr std::size_t kMaxMessageBytes = 4096;

}  // namespace

RootStatusWriter::RootStatusWriter(Api& api, const Runtime& runtime,
                                   RootStatusWriterOptions options)
    : api_(api),
      runtime_(runtime),
      options_(std::move(options)),
      budget_(runtime_.clock, kBurst, kRootSpacing),
      strand_(runtime_.blocking) {
  strand_.post([this] { round(); });
}

RootStatusWriter::~RootStatusWriter() {
  strand_.stop();
  timer_.reset();
}

void RootStatusWriter::on_objects(const std::vector<ObjectKey>& keys) {
  std::lock_guard lock(mutex_);
  for (const ObjectKey& key : keys)
    if (key.is(kinds::kMeshRootCertificate) && key.ns == options_.osm_namespace)
      touched_.insert(key.name);
}

void RootStatusWriter::round() {
  if (options_.may_write()) {
    write_all();
  } else {
    written_.clear();
  }
  timer_ = strand_.post_after(kPeriod, [this] { round(); });
}

void RootStatusWriter::write_all() {
  std::set<std::string> touched;
  {
    std::lock_guard lock(mutex_);
    touched.swap(touched_);
  }
  for (const std::string& name : touched) written_.erase(name);
  for (const RootStatus& root : options_.roots()) {
    if (root.role.empty() || root.name == kOwnRoot) {  // there is no such object
      written_.erase(root.name);
      continue;
    }
    const Said said{root.state, root.waiting_for.substr(0, kMaxMessageBytes)};
    const auto before = written_.find(root.name);
    if (before != written_.end() && before->second == said) continue;
    if (!options_.may_write() || !budget_.take()) return;
    if (write(root.name, said)) written_[root.name] = said;
  }
}

// True also for a removed object.
bool RootStatusWriter::write(const std::string& name, const Said& said) {
  const json::object body{{"status", {{"state", said.first}, {"message", said.second}}}};
  const auto patched = api_.patch(
      kMeshRootCertificates, options_.osm_namespace, name,
      {.type = PatchType::kMerge, .body = json::serialize(body), .subresource = "status"});
  const bool failed = !patched.ok() && patched.error().code != ErrorCode::kNotFound;
  if (failed && !std::exchange(failing_, true))
    runtime_.log.warning("the status of a MeshRootCertificate cannot be written",
                         {{"name", name}, {"detail", patched.error().text()}});
  if (failed) return false;
  failing_ = false;
  if (patched.ok())
    runtime_.metrics.add("osm_status_written_total",
                         {{"kind", std::string(kMeshRootCertificates.kind)}}, 1);
  return true;
}

}  // namespace osm::inline v1::kubernetes
