#include "kubernetes/upkeep/reconciler.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>
#include <vector>

#include "base/backoff.hpp"
#include "base/json.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/event_writer.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "kubernetes/upkeep/webhooks.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr Counter kReconciliation{
    "osm_reconciliation_total",
    "Objects of the cluster that somebody changed or deleted and that were restored, by kind",
    {"kind"}};
constexpr Gauge kClusterObjectPresent{
    "osm_cluster_object_present",
    "0 while an object of the cluster is missing, or is not as this version needs it",
    {"kind", "name"}};

constexpr const char* kReconcilerManager = "osm";
constexpr std::chrono::seconds kFirstDelay{1};
constexpr std::chrono::minutes kLongestDelay{5};
constexpr std::chrono::minutes kQuiet{1};

json::object& labels_of(json::object& object) {
  return object["metadata"].as_object()["labels"].as_object();
}

bool lists_agree(const json::array& actual, const json::array& wanted) {
  if (actual.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::string name = text_at(wanted[i], "name");
    const auto at = name.empty() ? actual.begin() + static_cast<std::ptrdiff_t>(i)
                                 : std::find_if(actual.begin(), actual.end(), [&](const auto& one) {
                                     return text_at(one, "name") == name;
                                   });
    if (at == actual.end() || !holds(*at, wanted[i])) return false;
  }
  return true;
}

std::string_view effect_of(const Resource& resource) {
  if (resource == kMutatingWebhooks) return "pods are created without sidecars";
  if (resource == kValidatingWebhooks) return "invalid objects are not refused";
  return "the mesh does without the objects of this kind";
}

bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kPermissionDenied || error.code == ErrorCode::kInvalidField;
}

std::chrono::nanoseconds longer(std::chrono::nanoseconds delay) {
  return std::clamp<std::chrono::nanoseconds>(delay * 2, kFirstDelay, kLongestDelay);
}

// As the server needs it: for the server, null is not the same as an absent member.
json::value without_nulls(const json::value& value) {
  if (const auto* map = value.if_object()) {
    json::object out;
    for (const auto& [key, item] : *map)
      if (!item.is_null()) out[key] = without_nulls(item);
    return out;
  }
  if (const auto* list = value.if_array()) {
    json::array out;
    for (const json::value& item : *list) out.push_back(without_nulls(item));
    return out;
  }
  return value;
}

}  // namespace

bool holds(const json::value& actual, const json::value& wanted) {
  if (wanted.is_null())
    return actual.is_null() || (actual.is_array() && actual.get_array().empty());
  if (const auto* map = wanted.if_object()) {
    const auto* fields = actual.if_object();
    if (fields == nullptr) return map->empty() && actual.is_null();
    if (map->empty()) return fields->empty();
    return std::all_of(map->begin(), map->end(), [&](const auto& member) {
      const auto* value = fields->if_contains(member.key());
      return holds(value == nullptr ? json::value() : *value, member.value());
    });
  }
  if (const auto* list = wanted.if_array()) {
    const auto* items = actual.if_array();
    return items == nullptr ? list->empty() && actual.is_null() : lists_agree(*items, *list);
  }
  return actual == wanted;
}

Reconciler::Reconciler(Api& api, const Runtime& runtime, std::string replica,
                       std::string osm_namespace)
    : api_(api),
      runtime_(runtime),
      replica_(std::move(replica)),
      osm_namespace_(std::move(osm_namespace)),
      strand_(runtime_.blocking) {}

void Reconciler::want(const Resource& resource, json::object object, Repair repair) {
  // Helm leaves CRDs of an earlier version, which may be the same but for the label.
  if (repair == Repair::kReport) labels_of(object).erase(kVersionLabel);
  strand_.post([this, resource, object = std::move(object), repair]() mutable {
    const Key key{resource.plural, metadata_of(object).name};
    Wanted& wanted = wanted_[key];
    // A change of what is wanted is no repair.
    if (wanted.object != object) wanted.seen = false;
    wanted.resource = resource;
    wanted.object = std::move(object);
    wanted.repair = repair;
    follow(resource);
    look(key);
  });
}

void Reconciler::follow(const Resource& resource) {
  auto& informer = informers_[resource.plural];
  if (informer) return;
  informer = std::make_unique<Informer>(InformerOptions{
      .api = api_,
      .executor = strand_,
      .runtime = runtime_,
      .resource = resource,
      .label_selector = std::string(kNameLabel) + '=' + kNameLabelValue,
      .metadata_only = true,
      .on_change = [this, plural = resource.plural](const std::vector<ObjectKey>& keys) {
        for (const ObjectKey& key : keys) look({plural, key.name});
      }});
  informer->start();
}

void Reconciler::look_later(const Key& key, std::chrono::nanoseconds delay) {
  wanted_.at(key).retry = strand_.post_after(delay, [this, key] {
    wanted_.at(key).retry.reset();
    look(key);
  });
}

void Reconciler::look(const Key& key) {
  const auto at = wanted_.find(key);
  if (at == wanted_.end() || at->second.retry) return;
  Wanted& wanted = at->second;
  const Status settled = settle(key, wanted);
  if (settled.ok()) {
    wanted.backoff = {};
    return;
  }
  wanted.backoff = longer(wanted.backoff);
  runtime_.log.warning("an object of the mesh cannot be looked after",
                       {{"kind", std::string(wanted.resource.kind)},
                        {"name", key.second},
                        {"detail", settled.error().text()}});
  look_later(key, jittered(wanted.backoff, runtime_.rng));
}

// The version that the server's cache must have for an answer; empty: only the newest one will do,
// since the watch knows of no such object.
std::string Reconciler::known_version(const Key& key) const {
  const Informer& informer = *informers_.at(key.first);
  if (const auto known = informer.objects().find("", key.second); known.object)
    return known.version;
  return informer.has_synced() ? "" : "0";  // the watch will tell of it
}

// The rest of a newer version's object is its own, but its CA is ours: after a rollback of the
// programs no other one follows root rotations. Result: what to write; empty: nothing.
json::object Reconciler::mended(const Wanted& wanted, const json::object& live) {
  return wanted.repair == Repair::kReport ? json::object() : with_ca_of(wanted.object, live);
}

void Reconciler::accept(const Key& key, Wanted& wanted, const json::object& live) {
  wanted.uid = metadata_of(live).uid;
  wanted.seen = true;
  clear(key, wanted);
}

Status Reconciler::settle(const Key& key, Wanted& wanted) {
  const auto as_wanted = [&](const json::object& live) {
    return is_newer(live) ? mended(wanted, live).empty() : holds(live, wanted.object);
  };
  if (const std::string known = known_version(key); !known.empty()) {
    const auto cached = api_.get(wanted.resource, {}, key.second, known);
    if (cached.ok() && as_wanted(*cached)) {
      accept(key, wanted, *cached);
      return {};
    }
  }
  // Nothing is said or written because of an answer that may be old.
  const auto live = api_.get(wanted.resource, {}, key.second);
  const bool absent = !live.ok() && live.error().code == ErrorCode::kNotFound;
  if (!live.ok() && !absent) return live.error();
  if (!absent && as_wanted(*live)) {
    accept(key, wanted, *live);
    return {};
  }
  if (!absent) wanted.uid = metadata_of(*live).uid;
  if (wanted.repair == Repair::kReport || (absent && wanted.repair != Repair::kCreate)) {
    wanted.seen = false;  // the one that comes needs our part, which is no repair
    return report(key, wanted, absent);
  }
  const auto since = runtime_.clock.steady_now() - wanted.repaired;
  if (wanted.seen && since < wanted.spacing) {
    look_later(key, wanted.spacing - since);
    return {};
  }
  const Status written = put_back(wanted, absent ? json::object() : *live);
  if (!written.ok()) {
    // An admission policy lets this account write what its chart installed, and no more.
    if (is_refusal(written.error())) OSM_TRY(report(key, wanted, absent));
    return written;
  }
  clear(key, wanted);
  if (std::exchange(wanted.seen, true)) note_repair(wanted, absent);
  return {};
}

void Reconciler::note_repair(Wanted& wanted, bool deleted) {
  const SteadyTime now = runtime_.clock.steady_now();
  // Nobody has disagreed for long enough.
  if (now - wanted.repaired >= wanted.spacing + kQuiet) wanted.spacing = {};
  wanted.spacing = longer(wanted.spacing);
  wanted.repaired = now;
  runtime_.metrics.add(kReconciliation, {{"kind", wanted.resource.kind}}, 1);
  runtime_.log.warning(
      deleted ? "an object of the mesh was deleted and is put back"
              : "an object of the mesh was changed and is put back",
      {{"kind", std::string(wanted.resource.kind)}, {"name", metadata_of(wanted.object).name}});
}

Status Reconciler::report(const Key& key, Wanted& wanted, bool missing) {
  Problem problem{.code = missing ? ErrorCode::kNotFound : ErrorCode::kConflict,
                  .object = {wanted.resource.group_kind(), "", key.second},
                  .path = "API server",
                  .field = {},
                  .cause = missing ? "is not there: " + std::string(effect_of(wanted.resource))
                                   : "is not as version " + std::string(product_version()) +
                                         " of the mesh needs it"};
  problem.cause += "; run `osm upgrade --osm-namespace " + osm_namespace_ +
                   "`, or apply the chart again with the tool that installed the mesh";
  std::unique_lock lock(mutex_);
  const auto [at, fresh] = problems_.try_emplace(key, problem);
  const bool changed = fresh || !(at->second == problem);
  if (changed) at->second = problem;
  lock.unlock();
  if (changed) {
    wanted.told = false;
    set_present(wanted, false);
    runtime_.log.warning("an object of the mesh is missing or changed",
                         {{"kind", std::string(wanted.resource.kind)},
                          {"name", key.second},
                          {"cause", problem.cause}});
  }
  if (wanted.told) return {};
  Object about;
  about.key = problem.object;
  about.api_version = wanted.resource.api_version();
  about.document = std::make_shared<const json::value>(
      json::object{{"metadata", {{"name", key.second}, {"uid", wanted.uid}}}});
  OSM_TRY(write_event(api_, runtime_, replica_, problem, about));
  wanted.told = true;
  return {};
}

void Reconciler::clear(const Key& key, Wanted& wanted) {
  wanted.told = false;
  set_present(wanted, true);
  std::lock_guard lock(mutex_);
  problems_.erase(key);
}

void Reconciler::set_present(const Wanted& wanted, bool present) {
  runtime_.metrics.set(
      kClusterObjectPresent,
      {{"kind", std::string(wanted.resource.kind)}, {"name", metadata_of(wanted.object).name}},
      present ? 1 : 0);
}

std::vector<Problem> Reconciler::problems() const {
  std::vector<Problem> problems;
  std::lock_guard lock(mutex_);
  for (const auto& [key, problem] : problems_) problems.push_back(problem);
  return problems;
}

Status Reconciler::put_back(const Wanted& wanted, const json::object& present) {
  if (present.empty() || !is_newer(present)) return write(wanted, present);
  OSM_TRY(api_.update(wanted.resource, mended(wanted, present)));
  return {};
}

// Server-side apply removes only fields of this manager. Sections to which others added are
// replaced. The version is the installer's to say: a rollback could not take it back from us.
Status Reconciler::write(const Wanted& wanted, const json::object& present) {
  json::value body = without_nulls(wanted.object);
  json::object& labels = labels_of(body.as_object());
  if (!labels.contains(kVersionLabel)) {
    const std::string version =
        text_at(map_at(map_at(present, "metadata"), "labels"), kVersionLabel);
    labels[kVersionLabel] = version.empty() ? std::string(product_version()) : version;
  }
  const auto applied = api_.patch(wanted.resource, {}, metadata_of(wanted.object).name,
                                  {.type = PatchType::kApply,
                                   .body = json::serialize(body),
                                   .field_manager = kReconcilerManager,
                                   .force = true});
  // An object that is neither as it was nor as it is wanted may be refused; the whole one is not.
  if (!applied.ok() && (present.empty() || !is_refusal(applied.error()))) return applied.error();
  json::object live = applied.ok() ? *applied : present;
  if (applied.ok() && holds(live, wanted.object)) return {};
  for (const auto& [key, value] : body.as_object())
    if (value.is_array() || value.is_object())
      if (key != "metadata") live[key] = value;
  OSM_TRY(live, api_.update(wanted.resource, live));
  if (holds(live, wanted.object)) return {};
  return Error{ErrorCode::kConflict, "the API server, or another webhook, changes what is written"};
}

}  // namespace osm::inline v1::kubernetes
