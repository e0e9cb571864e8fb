// An API server in memory, for tests of the code that writes to one: versions, UIDs and
// generations, conflicts, server-side apply with field ownership, status subresources, selectors,
// lists and watches with their history. tests/contract/kube_api_*_contract.cpp hold it to a real
// one.
//
// Callbacks of list and watch run inside the call that causes them. Thread: any.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/times.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/apply_rules.hpp"
#include "kubernetes/client/resource_rules.hpp"
#include "kubernetes/client/selection.hpp"
#include "osm/clock.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::kubernetes_test {

namespace json = boost::json;
using kubernetes::Api;
using kubernetes::Resource;

class MemoryApi : public Api {
 public:
  using Key = std::tuple<std::string, std::string, std::string>;  // plural, namespace, name

  explicit MemoryApi(const Clock& clock) : clock_(clock) {}

  // --- for tests ---

  // Writes as text: "patch secrets shop/web". Reads are not noted.
  std::vector<std::string> writes() const {
    std::lock_guard lock(mutex_);
    return writes_;
  }
  void forget_writes() {
    std::lock_guard lock(mutex_);
    writes_.clear();
  }
  // Asked before each call, with its words as above; an Error is the call's answer then.
  void set_fault(std::function<Status(const std::string& call)> fault) {
    std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }
  // Sets the answer of server_version().
  void set_version(Result<std::string> version) {
    std::lock_guard lock(mutex_);
    release_ = std::move(version);
  }
  // As a user's `kubectl edit`: changes the object as it is and takes what differs over.
  void edit(const Resource& resource, const std::string& ns, const std::string& name,
            const std::function<void(json::object&)>& change) {
    json::object object = at(resource, ns, name);
    change(object);
    const auto done = write(resource, std::move(object), "", "user", false);
    if (!done.ok()) throw std::runtime_error(done.error().text());
  }
  json::object at(const Resource& resource, const std::string& ns, const std::string& name) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(key_of(resource, ns, name));
    return found == objects_.end() ? json::object() : found->second.object;
  }
  std::size_t count(const Resource& resource) const {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [key, held] : objects_) count += std::get<0>(key) == resource.plural;
    return count;
  }
  // Gets whose answer had to be the newest.
  std::size_t newest_gets() const {
    std::lock_guard lock(mutex_);
    return newest_gets_;
  }
  // A get of any version answers this from now on.
  void set_cached(json::object object) {
    std::lock_guard lock(mutex_);
    cached_ = std::move(object);
  }
  std::size_t watchers() const {
    std::lock_guard lock(mutex_);
    return watches_.size();
  }
  std::string version() const {
    std::lock_guard lock(mutex_);
    return std::to_string(version_);
  }
  // Forgets the history: watches and pages of versions up to now are gone.
  void compact() {
    std::lock_guard lock(mutex_);
    history_.clear();
    pages_.clear();
    compacted_ = ++version_;
  }
  // Ends every watch, as a server that restarts does.
  void end_watches() {
    for (auto& [id, watch] : take_watches()) watch->handler.on_end({});
  }
  // Ends every watch, as a server does when the time that was asked for is over.
  void time_out_watches() {
    for (auto& [id, watch] : take_watches()) {
      watch->handler.on_event(kubernetes::WatchEventType::kBookmark, bookmark_at(newest()));
      watch->handler.on_end({});
    }
  }

  // --- Api ---

  Result<json::object> get(const Resource& resource, const std::string& ns, const std::string& name,
                           const std::string& not_older_than) override {
    if (auto fault = fails("get", resource, ns, name); !fault.ok()) return fault.error();
    std::lock_guard lock(mutex_);
    if (not_older_than.empty()) ++newest_gets_;
    if (not_older_than == "0" && cached_) return *cached_;
    const auto found = objects_.find(key_of(resource, ns, name));
    if (found == objects_.end()) return missing(resource, ns, name);
    return found->second.object;
  }

  Result<json::object> create(const Resource& resource, const json::object& object) override {
    const auto [ns, name] = named(object);
    if (auto fault = writes("create", resource, ns, name); !fault.ok()) return fault.error();
    if (Status named_well = check_name(name); !named_well.ok()) return named_well.error();
    {
      std::lock_guard lock(mutex_);
      if (objects_.contains(key_of(resource, ns, name)))
        return Error{ErrorCode::kAlreadyExists, name + " is there already"};
    }
    json::object made = object;
    if (has_status(resource)) made.erase("status");
    return write(resource, std::move(made), "", "creator", true);
  }

  Result<json::object> update(const Resource& resource, const json::object& object,
                              const std::string& subresource) override {
    const auto [ns, name] = named(object);
    if (auto fault = writes("update", resource, ns, name); !fault.ok()) return fault.error();
    if (subresource.empty() && !updates_unversioned(resource) &&
        text_at(map_at(object, "metadata"), "resourceVersion").empty())
      return Error{ErrorCode::kInvalidField,
                   "metadata.resourceVersion: Invalid value: must be specified for an update"};
    bool creates = false;
    {
      std::lock_guard lock(mutex_);
      creates = creates_on_update(resource) && !objects_.contains(key_of(resource, ns, name));
    }
    return write(resource, object, subresource, "updater", creates);
  }

  Result<json::object> patch(const Resource& resource, const std::string& ns,
                             const std::string& name, const kubernetes::Patch& patch) override {
    if (auto fault = writes("patch", resource, ns, name); !fault.ok()) return fault.error();
    const json::object body = json::parse(patch.body).as_object();
    if (patch.type == kubernetes::PatchType::kApply) return apply(resource, ns, name, body, patch);
    json::object object;
    {
      std::lock_guard lock(mutex_);
      const auto found = objects_.find(key_of(resource, ns, name));
      if (found == objects_.end()) return missing(resource, ns, name);
      object = found->second.object;
      if (auto stale = check_preconditions(body, object); !stale.ok()) {
        // A patch that names the version as well is told of that first.
        const json::object& asked = map_at(body, "metadata");
        if (!differs(asked, map_at(object, "metadata"), "resourceVersion"))
          return Error{ErrorCode::kInvalidField, "metadata.uid: field is immutable"};
        return stale.error();
      }
    }
    merge(object, body);
    return write(resource, std::move(object), patch.subresource, "patcher", false);
  }

  Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                const kubernetes::DeleteOptions& options) override {
    if (auto fault = writes("delete", resource, ns, name); !fault.ok()) return fault;
    std::vector<std::function<void()>> calls;
    {
      std::lock_guard lock(mutex_);
      const auto found = objects_.find(key_of(resource, ns, name));
      if (found == objects_.end()) return missing(resource, ns, name);
      const json::object& metadata = map_at(found->second.object, "metadata");
      const bool other = (!options.uid.empty() && text_at(metadata, "uid") != options.uid) ||
                         (!options.resource_version.empty() &&
                          text_at(metadata, "resourceVersion") != options.resource_version);
      if (other) return Error{ErrorCode::kConflict, name + " is another by now"};
      const json::object before = found->second.object;
      json::object last = before;
      last["metadata"].as_object()["resourceVersion"] = std::to_string(++version_);
      objects_.erase(found);
      tell(kubernetes::WatchEventType::kDeleted, resource, before, last, calls);
    }
    for (const auto& call : calls) call();
    return {};
  }

  Result<std::string> server_version() override {
    std::lock_guard lock(mutex_);
    return release_;
  }

  Subscription list(const kubernetes::ListRequest& request,
                    std::function<void(Result<kubernetes::ListPage>)> done) override {
    if (auto fault = fails("list", request.resource, request.ns, ""); !fault.ok()) {
      done(fault.error());
      return {};
    }
    auto listed = page(request);
    if (listed.ok()) listed = handed_over(*std::move(listed), request);
    done(std::move(listed));
    return {};
  }

  Subscription watch(const kubernetes::WatchRequest& request,
                     kubernetes::WatchHandler handler) override {
    if (auto fault = fails("watch", request.resource, request.ns, ""); !fault.ok()) {
      handler.on_end(fault);
      return {};
    }
    auto watch = std::make_shared<Watch>(Watch{request, std::move(handler), 0});
    std::vector<Told> missed;
    int id = 0;
    {
      std::unique_lock lock(mutex_);
      const bool any = request.resource_version.empty();
      const std::uint64_t from = any ? 0 : std::stoull(request.resource_version);
      if (!any && from < compacted_) {
        lock.unlock();
        watch->handler.on_end(Error{ErrorCode::kGone, "too old resource version"});
        return {};
      }
      watch->from = from;
      id = ++last_watch_;
      watches_[id] = watch;
      if (any) {
        for (const auto& [key, held] : objects_)
          if (of_resource(key, request.resource) && selected(held.object, request))
            missed.push_back({kubernetes::WatchEventType::kAdded,
                              request.metadata_only ? only_metadata(held.object) : held.object});
      } else {
        for (const Change& change : history_)
          if (change.version > from && change.plural == request.resource.plural)
            for (Told& each : told(request, change.type, change.before, change.object))
              missed.push_back(std::move(each));
      }
    }
    if (watch->handler.on_open) watch->handler.on_open();
    for (const Told& each : missed) watch->handler.on_event(each.type, each.object);
    return Subscription(std::shared_ptr<void>(nullptr, [this, id](void*) {
      std::lock_guard lock(mutex_);
      watches_.erase(id);
    }));
  }

 private:
  struct Held {
    json::object object;
    std::map<std::string, std::set<std::string>> owned;  // by manager: paths of leaves
  };
  struct Watch {
    kubernetes::WatchRequest request;
    kubernetes::WatchHandler handler;
    std::uint64_t from;  // tells what is newer, also if that is still to come
  };
  struct Change {
    std::uint64_t version;
    std::string plural;
    kubernetes::WatchEventType type;
    json::object before;
    json::object object;
  };
  // The pages of a list that is being read: of one version.
  struct Pages {
    std::uint64_t version;
    std::deque<json::object> left;
  };

  static Key key_of(const Resource& resource, const std::string& ns, const std::string& name) {
    return {std::string(resource.plural), resource.namespaced ? ns : "", name};
  }
  static std::pair<std::string, std::string> named(const json::object& object) {
    const json::object& metadata = map_at(object, "metadata");
    return {text_at(metadata, "namespace"), text_at(metadata, "name")};
  }
  static Error missing(const Resource& resource, const std::string& ns, const std::string& name) {
    return {ErrorCode::kNotFound, std::string(resource.plural) + ' ' + ns + '/' + name};
  }

  static bool of_resource(const Key& key, const Resource& resource) {
    return std::get<0>(key) == resource.plural;
  }
  std::map<int, std::shared_ptr<Watch>> take_watches() {
    std::lock_guard lock(mutex_);
    return std::exchange(watches_, {});
  }
  std::uint64_t newest() const {
    std::lock_guard lock(mutex_);
    return version_;
  }

  Result<kubernetes::ListPage> page(const kubernetes::ListRequest& request) {
    std::lock_guard lock(mutex_);
    Pages pages{version_, {}};
    if (request.continue_token.empty()) {
      for (const auto& [key, held] : objects_)
        if (of_resource(key, request.resource) && selected(held.object, request))
          pages.left.push_back(request.metadata_only ? only_metadata(held.object) : held.object);
    } else {
      auto kept = pages_.extract(request.continue_token);
      if (kept.empty()) return Error{ErrorCode::kGone, "the continue token expired"};
      pages = std::move(kept.mapped());
    }
    kubernetes::ListPage out;
    out.resource_version = std::to_string(pages.version);
    while (!pages.left.empty() && (request.limit == 0 || out.items.size() < request.limit)) {
      out.items.push_back(std::move(pages.left.front()));
      pages.left.pop_front();
    }
    if (!pages.left.empty()) {
      out.continue_token = "page-" + std::to_string(++last_page_);
      pages_[out.continue_token] = std::move(pages);
    }
    return out;
  }

  Status fails(const char* verb, const Resource& resource, const std::string& ns,
               const std::string& name) {
    std::function<Status(const std::string&)> fault;
    {
      std::lock_guard lock(mutex_);
      fault = fault_;
    }
    const std::string slash = ns.empty() || name.empty() ? "" : "/";
    return fault ? fault(std::string(verb) + ' ' + std::string(resource.plural) + ' ' + ns + slash +
                         name)
                 : Status();
  }
  Status writes(const char* verb, const Resource& resource, const std::string& ns,
                const std::string& name) {
    if (auto fault = fails(verb, resource, ns, name); !fault.ok()) return fault;
    std::lock_guard lock(mutex_);
    writes_.push_back(std::string(verb) + ' ' + std::string(resource.plural) + ' ' + ns +
                      (ns.empty() ? "" : "/") + name);
    return {};
  }

  static Status check_preconditions(const json::object& asked, const json::object& live) {
    const json::object& want = map_at(asked, "metadata");
    const json::object& have = map_at(live, "metadata");
    for (const char* field : {"resourceVersion", "uid"})
      if (differs(want, have, field))
        return Error{ErrorCode::kConflict, std::string(field) + " is another by now"};
    return {};
  }
  static bool differs(const json::value& want, const json::value& have, const char* field) {
    const std::string text = text_at(want, field);
    return !text.empty() && text != text_at(have, field);
  }

  Result<json::object> apply(const Resource& resource, const std::string& ns,
                             const std::string& name, const json::object& body,
                             const kubernetes::Patch& patch) {
    json::object object;
    bool created = false;
    {
      std::lock_guard lock(mutex_);
      const auto found = objects_.find(key_of(resource, ns, name));
      created = found == objects_.end();
      if (created && !patch.subresource.empty()) return missing(resource, ns, name);
      if (Status named_well = check_name(name); !named_well.ok()) return named_well.error();
      Held none;
      Held& held = created ? none : found->second;
      if (!created)
        if (auto stale = check_preconditions(body, held.object); !stale.ok()) return stale.error();
      const auto wanted = owned_leaves(body, patch.subresource);
      const auto present = owned_leaves(held.object, patch.subresource);
      if (!patch.force)
        for (const auto& [path, value] : wanted)
          for (const auto& [manager, paths] : held.owned)
            if (manager != patch.field_manager && paths.contains(path) && present.contains(path) &&
                present.at(path) != value)
              return Error{ErrorCode::kConflict, path + " belongs to " + manager};
      json::value result = held.object;
      if (!result.is_object()) result = json::object();
      std::vector<std::string> gone;
      for (const std::string& path : held.owned[patch.field_manager]) {
        const bool of_this = path.starts_with(".status") == !patch.subresource.empty();
        const bool shared =
            std::any_of(held.owned.begin(), held.owned.end(), [&](const auto& other) {
              return other.first != patch.field_manager && other.second.contains(path);
            });
        if (of_this && !wanted.contains(path) && !shared) gone.push_back(path);
      }
      // The member by which an element is found goes last.
      std::stable_partition(gone.begin(), gone.end(),
                            [](const auto& p) { return !names_element(p); });
      for (const std::string& path : gone) take_away(result, path);
      for (const auto& [key, value] : body) {
        if (!patch.subresource.empty() && key != "status") continue;
        if (patch.subresource.empty() && key == "status") continue;
        lay_over(result.as_object()[key], value, '.' + std::string(key));
      }
      object = std::move(result.as_object());
    }
    return write(resource, std::move(object), patch.subresource, patch.field_manager, created,
                 &body);
  }

  // `applied`: what an apply said, which it then owns, whether or not it was so before.
  Result<json::object> write(const Resource& resource, json::object object,
                             const std::string& subresource, const std::string& manager,
                             bool create, const json::object* applied = nullptr) {
    const auto [ns, name] = named(object);
    std::vector<std::function<void()>> calls;
    json::object result;
    {
      std::lock_guard lock(mutex_);
      const Key key = key_of(resource, ns, name);
      if (!create && !objects_.contains(key)) return missing(resource, ns, name);
      if (!create)
        if (auto stale = check_preconditions(object, objects_[key].object); !stale.ok())
          return stale.error();
      Held& held = objects_[key];
      const json::object before = held.object;
      if (!subresource.empty()) {
        json::object whole = before;
        whole[subresource] = object[subresource];
        object = std::move(whole);
      } else if (before.contains("status")) {
        object["status"] = before.at("status");
      } else if (!create && has_status(resource)) {
        object.erase("status");
      }
      own(held, before, object, subresource, manager, applied);
      finish(resource, before, object);
      if (!create && without_version(object) == without_version(before)) return before;
      ++version_;
      object["metadata"].as_object()["resourceVersion"] = std::to_string(version_);
      held.object = object;
      result = object;
      tell(create ? kubernetes::WatchEventType::kAdded : kubernetes::WatchEventType::kModified,
           resource, before, object, calls);
    }
    for (const auto& call : calls) call();
    return result;
  }

  void own(Held& held, const json::object& before, const json::object& after,
           const std::string& subresource, const std::string& manager,
           const json::object* applied) {
    const auto was = owned_leaves(before, subresource);
    const auto is = owned_leaves(after, subresource);
    const auto said = applied == nullptr ? std::map<std::string, json::value>()
                                         : owned_leaves(*applied, subresource);
    if (applied != nullptr)
      std::erase_if(held.owned[manager], [&](const std::string& path) {
        return path.starts_with(".status") == !subresource.empty();
      });
    for (const auto& [path, value] : is) {
      const auto old = was.find(path);
      const bool changed = old == was.end() || old->second != value;
      if (changed)
        for (auto& [other, paths] : held.owned) paths.erase(path);
      if (applied == nullptr ? changed : said.contains(path)) held.owned[manager].insert(path);
    }
    for (const auto& [path, value] : was)
      if (!is.contains(path))
        for (auto& [other, paths] : held.owned) paths.erase(path);
  }

  void finish(const Resource& resource, const json::object& before, json::object& object) {
    object["apiVersion"] = resource.api_version();
    object["kind"] = resource.kind;
    json::object& metadata = object["metadata"].as_object();
    const json::object& old = map_at(before, "metadata");
    const bool fresh = before.empty();
    metadata["uid"] = fresh ? "uid-" + std::to_string(++last_uid_) : text_at(old, "uid");
    if (!metadata.contains("creationTimestamp"))
      metadata["creationTimestamp"] =
          fresh ? rfc3339(clock_.wall_now()) : text_at(old, "creationTimestamp");
    const auto* generation = member(old, "generation");
    const std::int64_t last = generation == nullptr ? 0 : generation->as_int64();
    const bool changed = fresh || spec_of(before) != spec_of(object);
    if (has_generation(resource)) metadata["generation"] = changed ? last + 1 : last;
  }
  static json::value spec_of(const json::object& object) {
    const auto* spec = object.if_contains("spec");
    return spec == nullptr ? json::value() : *spec;
  }
  static json::object without_version(json::object object) {
    if (auto* metadata = object.if_contains("metadata"))
      metadata->as_object().erase("resourceVersion");
    return object;
  }
  void tell(kubernetes::WatchEventType type, const Resource& resource, const json::object& before,
            const json::object& object, std::vector<std::function<void()>>& calls) {
    history_.push_back({version_, std::string(resource.plural), type, before, object});
    for (const auto& [id, watch] : watches_) {
      if (!(watch->request.resource == resource) || version_ <= watch->from) continue;
      for (Told& each : told(watch->request, type, before, object))
        calls.push_back(
            [watch, each = std::move(each)] { watch->handler.on_event(each.type, each.object); });
    }
  }

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::map<Key, Held> objects_;
  std::map<int, std::shared_ptr<Watch>> watches_;
  std::vector<std::string> writes_;
  std::function<Status(const std::string&)> fault_;
  std::size_t newest_gets_ = 0;
  std::optional<json::object> cached_;
  Result<std::string> release_ = std::string("v1.31.1");
  std::deque<Change> history_;
  std::map<std::string, Pages> pages_;  // by continue token
  std::uint64_t version_ = 1;
  std::uint64_t compacted_ = 0;
  int last_page_ = 0;
  int last_uid_ = 0;
  int last_watch_ = 0;
};

// The cluster whose server it is.
class MemoryApiCluster final : public kubernetes::Cluster {
 public:
  explicit MemoryApiCluster(const Clock& clock) : memory(clock) {}
  std::string server() const override { return "https://cluster"; }
  Api& api() override { return memory; }

  MemoryApi memory;
};

}  // namespace osm::kubernetes_test
