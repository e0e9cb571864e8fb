#include "spec/kept_config.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <tuple>

#include "base/json.hpp"
#include "base/times.hpp"
#include "spec/decode.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

constexpr Pause kRetryRecord{.length = std::chrono::seconds(3), .jitter = true};
// Another replica may have read a newer MeshConfig before it was deleted.
constexpr Pause kFollowRecord{.length = std::chrono::seconds(30), .jitter = true};
constexpr const char* kAppliedAt = "openservicemesh.io/applied-at";

json::value spec_of(const Object& object) {
  const json::value* spec = member(*object.document, "spec");
  return spec == nullptr ? json::value() : *spec;
}

auto age_of(const LastConfig& config) { return std::tie(config.created, config.generation); }

bool same(const LastConfig& a, const LastConfig& b) {
  return a.spec == b.spec && age_of(a) == age_of(b);
}

Problem problem_of(const Error& error) {
  return {error.code, {}, "copy of the MeshConfig for restarts", 0, "", error.message};
}

void read_age(const Object& object, LastConfig& config) {
  const json::object& metadata = map_at(*object.document, "metadata");
  config.created = text_at(metadata, "creationTimestamp");
  config.generation = number_at(metadata, "generation");
}

}  // namespace

KeptConfig::KeptConfig(ObjectKey key, std::string cluster_domain,
                       const std::optional<KeptConfigOptions>& options)
    : key_(std::move(key)), cluster_domain_(std::move(cluster_domain)), options_(options) {
  if (!options_) return;
  strand_.emplace(options_->runtime.blocking);
  round_.emplace(*strand_, options_->runtime.rng, RoundOptions{.turn = [this] {
    const Pause pause = synchronize();
    changed_();
    return pause;
  }});
}

KeptConfig::~KeptConfig() { stop(); }

void KeptConfig::start(std::function<void()> changed) {
  changed_ = std::move(changed);
  const std::lock_guard lock(mutex_);
  state_.started = true;
  look_soon();
}

void KeptConfig::stop() {
  if (strand_) strand_->stop();
}

void KeptConfig::keep(const Object& object, std::shared_ptr<const MeshConfig> value) {
  LastConfig config{.value = std::move(value), .spec = spec_of(object)};
  // Only an API server maintains them; in a file they are text that somebody copied.
  if (!object.resource_version.empty()) read_age(object, config);
  if (options_) config.applied_at = rfc3339(options_->runtime.clock.wall_now());
  const std::lock_guard lock(mutex_);
  state_.following = false;
  if (state_.last && same(*state_.last, config)) return;
  state_.last = std::make_shared<const LastConfig>(std::move(config));
  state_.unsaved = true;
  look_soon();
}

void KeptConfig::follow() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(state_.following, true)) look_soon();
}

std::shared_ptr<const LastConfig> KeptConfig::last() const {
  const std::lock_guard lock(mutex_);
  return state_.last;
}

bool KeptConfig::is_read() const {
  const std::lock_guard lock(mutex_);
  return !options_ || state_.read;
}

Problem KeptConfig::gone() const {
  const Last last = this->last();
  std::string which = "the last one";
  if (!last->applied_at.empty()) which = "the one that was applied at " + last->applied_at;
  if (last->generation > 0) which += " (generation " + std::to_string(last->generation) + ')';
  return {
      ErrorCode::kNotFound,
      key_,
      "",
      0,
      "",
      "does not exist; " + which + " stays in force" +
          (options_ ? ", and " + options_->record.name() + " has it" : " until this program ends") +
          "; create it again, or create one with an empty spec for the defaults"};
}

std::vector<Problem> KeptConfig::problems() const {
  const std::lock_guard lock(mutex_);
  if (!state_.problem) return {};
  return {*state_.problem};
}

void KeptConfig::look_soon() {
  if (round_ && state_.started) round_->wake();
}

// Result: no pause if no look is needed before the MeshConfig changes.
Pause KeptConfig::synchronize() {
  const auto text = options_->record.load();
  const Result<Last> recorded = text.ok() ? parse(text->text) : Result<Last>(text.error());
  std::unique_lock lock(mutex_);
  if (!recorded.ok()) state_.problem = problem_of(recorded.error());
  if (!text.ok()) return kRetryRecord;
  take(recorded);
  const bool refused = !recorded.ok() && state_.last == nullptr;
  if (!state_.unsaved && !refused) return rest();
  if (refused || !options_->writes) return kRetryRecord;
  const Last wanted = state_.last;
  lock.unlock();
  const Status stored = options_->record.store({text_of(*wanted), text->version});
  lock.lock();
  if (!stored.ok()) {
    // Another replica was first: its configuration is read next.
    if (stored.error().code != ErrorCode::kConflict) state_.problem = problem_of(stored.error());
    return kRetryRecord;
  }
  state_.read = true;
  state_.problem.reset();
  if (state_.last == wanted) state_.unsaved = false;
  return rest();  // a newer one has its own look
}

Pause KeptConfig::rest() const { return state_.following ? kFollowRecord : Pause{}; }

// Decides between what is recorded (null: nothing) and what this process has.
void KeptConfig::take(const Result<Last>& recorded) {
  if (!recorded.ok()) {
    // A running mesh keeps what it has, and replaces a record that is refused.
    state_.unsaved = state_.last != nullptr;
    return;
  }
  state_.read = true;
  state_.problem.reset();
  const Last& theirs = *recorded;
  const Last& mine = state_.last;
  if (theirs == nullptr || mine == nullptr) {
    state_.unsaved = mine != nullptr;
    if (mine == nullptr) state_.last = theirs;
    return;
  }
  const bool newer = age_of(*mine) < age_of(*theirs);
  const bool older = age_of(*theirs) < age_of(*mine);
  const bool yields = !older && (!state_.unsaved || !options_->writes);
  state_.unsaved = !newer && !yields && !same(*mine, *theirs);
  if (!state_.unsaved) state_.last = theirs;
}

// Null: nothing is recorded.
Result<KeptConfig::Last> KeptConfig::parse(const std::string& text) const {
  if (text.empty()) return Last();
  OSM_TRY(const auto objects,
          read_objects(text, options_->record.name(), mesh_kinds({kinds::kMeshConfig})));
  if (objects.size() != 1 || objects.front()->key != key_)
    return Error{ErrorCode::kInvalidField, options_->record.name() + ": must hold " + key_.str() +
                                               " and nothing else; it is refused, and the next "
                                               "MeshConfig replaces it"};
  const Object& object = *objects.front();
  Decoded<MeshConfig> decoded = decode_mesh_config(object, cluster_domain_);
  if (!decoded.value) {
    const auto fault = std::ranges::find_if(
        decoded.problems, [](const auto& one) { return one.code != ErrorCode::kUnusedField; });
    return Error{fault->code, options_->record.name() + ": " + fault->field + ": " + fault->cause +
                                  "; it is refused, and the next MeshConfig replaces it"};
  }
  LastConfig config{.value = std::make_shared<const MeshConfig>(*std::move(decoded.value)),
                    .spec = spec_of(object)};
  read_age(object, config);
  if (const auto at = object.annotations.find(kAppliedAt); at != object.annotations.end())
    config.applied_at = at->second;
  return std::make_shared<const LastConfig>(std::move(config));
}

// The object as it can be created again: a server ignores the age in it.
std::string KeptConfig::text_of(const LastConfig& config) const {
  json::object metadata{{"name", key_.name}, {"namespace", key_.ns}};
  if (!config.created.empty()) metadata["creationTimestamp"] = config.created;
  if (config.generation > 0) metadata["generation"] = config.generation;
  metadata["annotations"] = {{kAppliedAt, config.applied_at}};
  json::object object{{"apiVersion", find_kind(mesh_kinds(), key_.group_kind())->api_version()},
                      {"kind", key_.kind},
                      {"metadata", std::move(metadata)}};
  if (!config.spec.is_null()) object["spec"] = config.spec;
  return json::serialize(object);
}

}  // namespace osm::inline v1::spec
