// An API server in memory that lists and watches as a real one does: one counter for all versions,
// a history that is compacted, pages of one version, bookmarks. Answers come through an executor,
// as they do over a network, and a test decides what goes wrong.
// tests/contract/kube_api_watch_contract.cpp holds it to a real one.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kubernetes/client/read_only_api.hpp"
#include "kubernetes/client/selection.hpp"
#include "osm/executor.hpp"

namespace osm::kubernetes_test {

namespace json = boost::json;
using kubernetes::ListPage;
using kubernetes::ListRequest;
using kubernetes::Resource;
using kubernetes::WatchEventType;
using kubernetes::WatchHandler;
using kubernetes::WatchRequest;

// One thread: that of the executor. Holds objects of any resource by plural and "namespace/name".
class WatchServer final : public ReadOnlyApi {
 public:
  explicit WatchServer(Executor& executor) : executor_(executor) {}

  // Actions of tests on it.

  void put(const Resource& resource, const std::string& ns, const std::string& name,
           json::object more = {}) {
    json::object object = std::move(more);
    json::object metadata;
    if (auto* given = object.if_contains("metadata")) metadata = given->get_object();
    metadata["namespace"] = ns;
    metadata["name"] = name;
    metadata["resourceVersion"] = std::to_string(++version_);
    object["metadata"] = std::move(metadata);
    auto& objects = objects_[std::string(resource.plural)];
    json::object before = std::exchange(objects[ns + '/' + name], object);
    const auto type = before.empty() ? WatchEventType::kAdded : WatchEventType::kModified;
    record(resource, type, std::move(before), std::move(object));
  }
  using ReadOnlyApi::remove;
  void remove(const Resource& resource, const std::string& ns, const std::string& name) {
    auto& objects = objects_[std::string(resource.plural)];
    const auto at = objects.find(ns + '/' + name);
    if (at == objects.end()) return;
    json::object before = at->second;
    json::object object = before;
    objects.erase(at);
    object["metadata"].get_object()["resourceVersion"] = std::to_string(++version_);
    record(resource, WatchEventType::kDeleted, std::move(before), std::move(object));
  }
  // Forgets what happened: who watches or pages from before now is gone.
  void compact() {
    history_.clear();
    paged_.clear();
    compacted_ = ++version_;
  }
  // Goes back to an earlier version, as a server whose store was restored from a backup. Objects
  // stay; all watches break.
  void restore(std::uint64_t version) {
    version_ = version;
    history_.clear();
    paged_.clear();
    end_watches(Error{ErrorCode::kUnavailable, "reset"});
  }
  // From now on lists of any version get this state: a cache that is behind.
  void keep_cache() { cache_ = {version_, objects_}; }
  std::size_t cached_lists() const { return cached_lists_; }
  void bookmark() {
    for (const auto& watch : std::vector(watches_))
      if (!watch->deaf && watch->from <= version_)
        tell(watch, {WatchEventType::kBookmark, bookmark_at(version_)});
  }
  // Ends all watches, as a server does when the time that was asked for is over.
  void time_out_watches() {
    bookmark();
    end_watches();
  }
  // Ends all watches, as a server's restart or a broken connection does.
  void end_watches(const Status& status = {}) {
    for (const auto& watch : std::exchange(watches_, {}))
      later([watch, status] { watch->handler.on_end(status); }, watch);
  }
  // The watches that are open now will say nothing any more, not even their end.
  void deafen() {
    for (const auto& watch : watches_) watch->deaf = true;
  }
  // They tell what they kept back.
  void undeafen() {
    for (const auto& watch : std::vector(watches_)) {
      if (!std::exchange(watch->deaf, false)) continue;
      for (const Change& change : history_)
        if (change.version > watch->from && change.plural == watch->request.resource.plural)
          tell(watch, change);
    }
  }
  void tell_twice(bool twice) { twice_ = twice; }
  // Sets the answer to lists / gets / watches; nullopt: the stored objects.
  void set_list_fault(std::optional<Error> fault) { list_fault_ = std::move(fault); }
  void set_get_fault(std::optional<Error> fault) { get_fault_ = std::move(fault); }
  void set_watch_fault(std::optional<Error> fault) { watch_fault_ = std::move(fault); }
  // As without its CRD.
  void set_missing(const Resource& resource, bool missing) {
    missing_[std::string(resource.plural)] = missing;
    if (missing) objects_[std::string(resource.plural)].clear();
  }
  std::size_t page_size = 1000;  // at most so many are in a page, whatever is asked for
  // Called before each page that is not the first.
  std::function<void()> between_pages;

  std::size_t lists() const { return lists_; }  // begun
  std::size_t gets() const { return gets_; }
  std::size_t watches() const { return watches_.size(); }
  const std::map<std::string, json::object>& objects(const Resource& resource) {
    return objects_[std::string(resource.plural)];
  }
  std::string version() const { return std::to_string(version_); }

  // Api.

  Subscription list(const ListRequest& request,
                    std::function<void(Result<ListPage>)> done) override {
    const auto call = std::make_shared<Call>();
    if (request.continue_token.empty()) ++lists_;
    later(
        [this, request, done] {
          auto listed = page(request);
          if (listed.ok()) listed = handed_over(*std::move(listed), request);
          done(std::move(listed));
        },
        call);
    return handle(call);
  }

  Subscription watch(const WatchRequest& request, WatchHandler handler) override {
    const auto watch = std::make_shared<Watch>();
    watch->request = request;
    watch->handler = std::move(handler);
    later([this, watch] { open(watch); }, watch);
    return Subscription(std::shared_ptr<void>(watch.get(), [this, watch](void*) {
      watch->over = true;
      std::erase(watches_, watch);
    }));
  }

  // Not from the executor's thread, since it answers.
  Result<json::object> get(const Resource& resource, const std::string& ns, const std::string& name,
                           const std::string&) override {
    const auto answer = std::make_shared<std::promise<Result<json::object>>>();
    auto answered = answer->get_future();
    executor_.post([this, answer, plural = std::string(resource.plural), key = ns + '/' + name] {
      ++gets_;
      if (get_fault_) return answer->set_value(*get_fault_);
      const auto at = objects_[plural].find(key);
      if (at == objects_[plural].end())
        return answer->set_value(Error{ErrorCode::kNotFound, "no such object"});
      answer->set_value(at->second);
    });
    return answered.get();
  }

 private:
  struct Call {
    bool over = false;
  };
  struct Watch : Call {
    WatchRequest request;
    WatchHandler handler;
    std::uint64_t from = 0;  // tells what is newer, also if that is still to come
    bool deaf = false;
  };
  struct Change {
    std::uint64_t version;
    std::string plural;
    WatchEventType type;
    json::object before;  // empty: there was none
    json::object object;
  };

  void later(std::function<void()> task, const std::shared_ptr<Call>& call) {
    executor_.post([task = std::move(task), call] {
      if (!call->over) task();
    });
  }
  static Subscription handle(const std::shared_ptr<Call>& call) {
    return Subscription(std::shared_ptr<void>(call.get(), [call](void*) { call->over = true; }));
  }

  void record(const Resource& resource, WatchEventType type, json::object before,
              json::object object) {
    const Change& change = history_.emplace_back(
        Change{version_, std::string(resource.plural), type, std::move(before), std::move(object)});
    for (const auto& watch : std::vector(watches_))
      if (watch->request.resource == resource && !watch->deaf && change.version > watch->from)
        tell(watch, change);
  }
  void tell(const std::shared_ptr<Watch>& watch, const Change& change) {
    for (const Told& each : told(watch->request, change.type, change.before, change.object))
      tell(watch, each);
  }
  void tell(const std::shared_ptr<Watch>& watch, const Told& event) {
    for (int i = 0; i < (twice_ ? 2 : 1); ++i)
      later([watch, event] { watch->handler.on_event(event.type, event.object); }, watch);
  }

  static std::uint64_t number(const std::string& text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  // A continue token is "<version>:<last key>": the pages of a list are of one version, which is
  // kept until it is compacted.
  Result<ListPage> page(const ListRequest& request) {
    if (list_fault_) return *list_fault_;
    const std::string plural(request.resource.plural);
    if (missing_[plural]) return Error{ErrorCode::kNotFound, "no such resource"};
    std::uint64_t version = version_;
    std::string after;
    if (!request.continue_token.empty()) {
      if (between_pages) between_pages();
      const auto colon = request.continue_token.find(':');
      version = number(request.continue_token.substr(0, colon));
      after = request.continue_token.substr(colon + 1);
      if (version < compacted_ || !paged_.contains({plural, version}))
        return Error{ErrorCode::kGone, "the continue token expired"};
    } else if (request.any_version && cache_) {
      ++cached_lists_;
      version = cache_->first;
      if (request.limit != 0) paged_[{plural, version}] = cache_->second[plural];
    } else if (request.limit != 0) {
      paged_[{plural, version}] = objects_[plural];
    }
    const auto& objects = request.limit != 0 ? paged_.at({plural, version}) : objects_[plural];
    ListPage out;
    out.resource_version = std::to_string(version);
    std::string last;
    for (auto at = objects.upper_bound(after); at != objects.end(); ++at) {
      if (!selected(at->second, request)) continue;
      if (request.limit != 0 && out.items.size() == std::min(request.limit, page_size)) {
        out.continue_token = out.resource_version + ':' + last;
        break;
      }
      out.items.push_back(request.metadata_only ? only_metadata(at->second) : at->second);
      last = at->first;
    }
    return out;
  }

  void open(const std::shared_ptr<Watch>& watch) {
    const std::string plural(watch->request.resource.plural);
    if (watch_fault_) return watch->handler.on_end(*watch_fault_);
    if (missing_[plural])
      return watch->handler.on_end(Error{ErrorCode::kNotFound, "no such resource"});
    const bool any = watch->request.resource_version.empty();
    const std::uint64_t from = number(watch->request.resource_version);
    if (!any && from < compacted_)
      return watch->handler.on_end(Error{ErrorCode::kGone, "too old resource version"});
    watch->from = from;
    watches_.push_back(watch);
    if (watch->handler.on_open) watch->handler.on_open();
    if (any) {
      for (const auto& [key, object] : objects_[plural])
        if (selected(object, watch->request))
          tell(watch, {WatchEventType::kAdded,
                       watch->request.metadata_only ? only_metadata(object) : object});
      return;
    }
    for (const Change& change : history_)
      if (change.version > from && change.plural == plural) tell(watch, change);
  }

  Executor& executor_;
  std::uint64_t version_ = 1;
  std::uint64_t compacted_ = 0;
  std::map<std::string, std::map<std::string, json::object>> objects_;  // by plural and key
  std::map<std::pair<std::string, std::uint64_t>, std::map<std::string, json::object>> paged_;
  std::deque<Change> history_;
  std::vector<std::shared_ptr<Watch>> watches_;
  std::map<std::string, bool> missing_;
  std::optional<Error> list_fault_;
  std::optional<Error> watch_fault_;
  std::optional<Error> get_fault_;
  bool twice_ = false;
  using Objects = std::map<std::string, std::map<std::string, json::object>>;
  std::optional<std::pair<std::uint64_t, Objects>> cache_;
  std::size_t cached_lists_ = 0;
  std::size_t lists_ = 0;
  std::size_t gets_ = 0;
};

}  // namespace osm::kubernetes_test
