#include "kubernetes/client/informer.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/backoff.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "kubernetes/client/reduce.hpp"
#include "osm/ids.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr Gauge kObjectsHeld{
    "osm_kubernetes_objects", "Objects of the API server held, by kind", {"kind"}};
constexpr Gauge kWatchStale{"osm_kubernetes_watch_staleness_seconds",
                            "Seconds since the API server last answered for a kind",
                            {"kind"}};
constexpr Gauge kWatchEventAge{"osm_kubernetes_watch_event_age_seconds",
                               "Seconds since the watch of a kind last sent anything",
                               {"kind"}};
constexpr Counter kWatchLists{
    "osm_kubernetes_watch_lists_total", "Complete lists, by kind", {"kind"}};
constexpr Counter kWatchEvents{
    "osm_kubernetes_watch_events_total", "Objects in events of watches, by kind", {"kind"}};
constexpr Counter kWatchRestarts{"osm_kubernetes_watch_restarts_total",
                                 "Watches restarted, by kind and reason",
                                 {"kind", "reason"}};

using std::chrono::seconds;

// Longest delay until a server that is back is noticed, at the cost of one request per kind.
constexpr Backoff kBackoff{std::chrono::milliseconds(500), seconds(4)};
// A controller that installs the kinds itself has them a few seconds after its first look.
constexpr Backoff kMissingBackoff{seconds(2), seconds(60)};
constexpr auto kBelieveMissingAfter = seconds(10);
// The server ends a watch after this time; a dead one is noticed soon after.
constexpr auto kWatchTimeout = seconds(120);
constexpr std::uint64_t kWatchTimeoutJitter = 60;  // seconds, so that kinds take turns
constexpr auto kSilenceSlack = seconds(15);
constexpr auto kBookmarkPeriod = seconds(60);  // API servers send bookmarks about this often
constexpr auto kUsefulWatch = seconds(10);     // a watch of this duration resets the back-off
constexpr std::size_t kPageSize = 500;

// "a=b,c": a label of this value, and one of any.
bool selects(std::string_view selector, const boost::json::object& labels) {
  while (!selector.empty()) {
    const auto end = std::min(selector.find(','), selector.size());
    const std::string_view part = selector.substr(0, end);
    selector.remove_prefix(std::min(end + 1, selector.size()));
    const auto equals = part.find('=');
    const auto* value = labels.if_contains(part.substr(0, equals));
    if (value == nullptr) return false;
    if (equals != std::string_view::npos &&
        (!value->is_string() || value->get_string() != part.substr(equals + 1)))
      return false;
  }
  return true;
}

}  // namespace

Informer::Informer(InformerOptions options)
    : options_(std::move(options)),
      kind_(options_.resource.kind),
      outage_(options_.runtime.clock,
              [this](const Problem* began) {
                if (began == nullptr)
                  options_.runtime.log.info("resource is read again", {{"kind", kind_}});
                else
                  options_.runtime.log.warning("resource cannot be read",
                                               {{"kind", kind_}, {"cause", began->text()}});
              }),
      self_(std::make_shared<Informer*>(this)) {}

Informer::~Informer() { self_.reset(); }

void Informer::start() {
  if (!started()) begin_list();
}

void Informer::stop() {
  if (!started()) return;
  ++epoch_;
  state_ = Stopped{};
  for (Subscription* handle : {&call_, &alarm_, &retry_, &problem_timer_}) handle->reset();
  outage_.forget();
  doubted_since_.reset();
  failures_ = 0;
  changed_ = table_.replace({});
  known_ = Known::kNothing;
  news_ = true;
  tell();
  settle_refreshes(false);
}

void Informer::refresh(std::function<void(bool)> done) {
  // A list that began earlier may have missed changes before this call.
  refresh_next_.push_back(std::move(done));
  if (!started()) {
    settle_refreshes(false);
  } else if (!std::holds_alternative<Listing>(state_)) {
    begin_list();
  }
}

// Waiting for an object.

std::optional<ObjectKey> Informer::followed(ObjectKey key) const {
  if (key.ns.empty()) key.ns = options_.ns;
  const bool here = options_.resource.namespaced
                        ? is_dns_label(key.ns) && (options_.ns.empty() || key.ns == options_.ns)
                        : key.ns.empty();
  if (!here || !is_dns_subdomain(key.name)) return std::nullopt;  // nothing has such a name
  return key;
}

Sighting Informer::sighting_of(const ObjectKey& key, const boost::json::object* found) const {
  Sighting seen{key.ns, key.name, {}};
  if (found == nullptr) return seen;
  const auto& metadata = map_at(*found, "metadata");
  if (selects(options_.label_selector, map_at(metadata, "labels")))
    seen.version = text_at(metadata, "resourceVersion");
  return seen;
}

void Informer::when_seen(Sighting sought, CatchUpCaller caller) {
  waiters_.add(std::move(caller), [this, sought = std::move(sought)] { return has_seen(sought); });
  waiters_.settle(true);
}

bool Informer::has_seen(const Sighting& sought) const {
  const VersionedObject known = table_.find(sought.ns, sought.name);
  if (sought.version.empty()) return !known.object;
  if (known.object && known.version == sought.version) return true;
  // A cluster that was restored has lower versions. So until this watch has told of something, no
  // version compares.
  const auto* watch = std::get_if<Watching>(&state_);
  return watch != nullptr && watch->progress == Watching::kProgressed &&
         not_older(version_, sought.version);
}

void Informer::report() const {
  options_.runtime.metrics.set(kObjectsHeld, {{"kind", kind_}}, table_.size());
  options_.runtime.metrics.set(kWatchStale, {{"kind", kind_}}, outage_.lasted());
  if (const auto* watch = std::get_if<Watching>(&state_))
    options_.runtime.metrics.set(kWatchEventAge, {{"kind", kind_}},
                                 options_.runtime.clock.steady_now() - watch->last_event);
}

// From the Api's threads to the executor.

VersionedObject Informer::entry_of(boost::json::object object) const {
  const auto& metadata = map_at(object, "metadata");
  std::string version = text_at(metadata, "resourceVersion");
  // Most objects of a repeated list are known: keep one copy.
  if (auto known = table_.find(text_at(metadata, "namespace"), text_at(metadata, "name"));
      known.object && known.version == version)
    return known;
  std::shared_ptr<const boost::json::value> status;
  if (auto* const there = options_.on_status ? object.if_contains("status") : nullptr)
    status = std::make_shared<const boost::json::value>(std::move(*there));
  auto kept = options_.metadata_only
                  ? reduce_to_metadata(options_.resource, std::move(object), options_.server)
                  : reduce(options_.resource, std::move(object), options_.server);
  return {std::move(kept), std::move(version), std::move(status)};
}

void Informer::deliver(std::uint64_t epoch, std::function<void()> take) {
  {
    std::lock_guard lock(inbox_->mutex);
    inbox_->messages.push_back({epoch, std::move(take)});
    if (inbox_->messages.size() > 1) return;  // the task that handles them is posted
  }
  options_.executor.post([weak = std::weak_ptr(self_)] {
    if (const auto self = weak.lock()) (*self)->drain();
  });
}

void Informer::drain() {
  std::vector<Message> messages;
  {
    std::lock_guard lock(inbox_->mutex);
    messages.swap(inbox_->messages);
  }
  for (const Message& message : messages)
    if (message.epoch == epoch_) message.take();  // otherwise its call was cancelled
  tell();
  waiters_.settle(true);
}

void Informer::tell() {
  const auto take = [](std::vector<ObjectKey>& keys) {
    std::vector<ObjectKey> taken = std::exchange(keys, {});
    std::sort(taken.begin(), taken.end());
    taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
    return taken;
  };
  if (outage_.take_news()) news_ = true;
  if (!changed_.empty() || news_) {
    news_ = false;
    options_.on_change(take(changed_));
  }
  if (!restated_.empty()) options_.on_status(take(restated_));
}

// Lists.

void Informer::begin_list(bool paged) {
  ++epoch_;
  state_ = Listing{paged};
  retry_.reset();
  alarm_.reset();
  std::move(refresh_next_.begin(), refresh_next_.end(), std::back_inserter(refreshing_));
  refresh_next_.clear();
  request_page("");
}

void Informer::request_page(const std::string& continue_token) {
  ListRequest request{options_.resource, options_.ns, options_.label_selector};
  request.limit = std::get<Listing>(state_).paged ? kPageSize : 0;
  request.metadata_only = options_.metadata_only;
  request.continue_token = continue_token;
  request.any_version = version_.empty() && refreshing_.empty();
  // Each is reduced as it arrives: the list as it was sent is never in memory.
  const auto items = std::make_shared<std::vector<VersionedObject>>();
  request.on_item = [this, items](boost::json::object item) {
    items->push_back(entry_of(std::move(item)));
  };
  call_ = options_.api.list(request, [this, items, epoch = epoch_](Result<ListPage> page) {
    if (!page.ok())
      return deliver(epoch, [this, error = page.error()] { take_list_failure(error); });
    deliver(epoch, [this, items, head = *std::move(page)] { take_page(head, std::move(*items)); });
  });
}

void Informer::take_list_failure(const Error& error) {
  const bool paged = std::get<Listing>(state_).paged;
  if (error.code == ErrorCode::kGone && paged) return begin_list(false);
  if (error.code == ErrorCode::kNotFound) return on_missing(error);
  doubted_since_.reset();
  fail(error, Next::kList);
}

void Informer::take_page(const ListPage& head, std::vector<VersionedObject> items) {
  on_reached();
  auto& fresh = std::get<Listing>(state_).fresh;
  std::move(items.begin(), items.end(), std::back_inserter(fresh));
  if (!head.continue_token.empty()) return request_page(head.continue_token);
  replace(std::exchange(fresh, {}), Known::kListed);
  version_ = head.resource_version;
  just_listed_ = true;
  doubted_since_.reset();
  misses_ = 0;
  options_.runtime.metrics.add(kWatchLists, {{"kind", kind_}}, 1);
  settle_refreshes(true);
  if (!started()) return;  // stopped by a callback
  begin(refresh_next_.empty() ? Next::kWatch : Next::kList);
}

void Informer::note_status(const VersionedObject& entry) {
  if (!options_.on_status) return;
  const ObjectKey& key = entry.object->key;
  const auto before = table_.find(key.ns, key.name).status;
  const bool same = before && entry.status ? *before == *entry.status : before == entry.status;
  if (!same) restated_.push_back(key);
}

void Informer::replace(std::vector<VersionedObject> objects, Known known) {
  for (const VersionedObject& entry : objects) note_status(entry);
  const auto changed = table_.replace(std::move(objects));
  changed_.insert(changed_.end(), changed.begin(), changed.end());
  if (known_.exchange(known) != known) news_ = true;
}

void Informer::settle_refreshes(bool ok) {
  auto done = std::exchange(refreshing_, {});
  if (!ok) {
    std::move(refresh_next_.begin(), refresh_next_.end(), std::back_inserter(done));
    refresh_next_.clear();
  }
  if (done.empty()) return;
  tell();
  for (const auto& call : done) call(ok);
}

// Watches.

void Informer::begin_watch() {
  ++epoch_;
  retry_.reset();
  WatchRequest request{options_.resource, options_.ns, options_.label_selector};
  request.resource_version = version_;
  request.metadata_only = options_.metadata_only;
  request.timeout = kWatchTimeout + seconds(options_.runtime.rng.next() % kWatchTimeoutJitter);
  const SteadyTime now = options_.runtime.clock.steady_now();
  state_ = Watching{now, now, request.timeout + kSilenceSlack};
  WatchHandler handler;
  handler.on_open = [this, epoch = epoch_] {
    deliver(epoch, [this] {
      std::get<Watching>(state_).progress = Watching::kOpened;
      just_listed_ = false;
      on_reached();
    });
  };
  handler.on_event = [this, epoch = epoch_](WatchEventType type, boost::json::object object) {
    VersionedObject entry;
    if (type == WatchEventType::kBookmark) {
      entry.version = text_at(map_at(object, "metadata"), "resourceVersion");
    } else {
      entry = entry_of(std::move(object));
    }
    deliver(epoch, [this, type, entry = std::move(entry)] { take_event(type, entry); });
  };
  handler.on_end = [this, epoch = epoch_](const Status& status) {
    deliver(epoch, [this, status] { take_end(status); });
  };
  call_ = options_.api.watch(request, std::move(handler));
  arm_alarm(request.timeout + kSilenceSlack);
}

void Informer::arm_alarm(std::chrono::nanoseconds delay) {
  alarm_ = options_.executor.post_after(delay, [this] { on_silence(); });
}

void Informer::on_silence() {
  const Watching& watch = std::get<Watching>(state_);
  const auto idle = options_.runtime.clock.steady_now() - watch.last_event;
  if (idle < watch.silence_limit) return arm_alarm(watch.silence_limit - idle);
  count_restart("silent");
  failures_ = 0;  // it lived long enough
  fail({ErrorCode::kDeadlineExceeded,
        "watch " + std::string(options_.resource.plural) + ": silent past its timeout"},
       after_watch(false));
  tell();
}

// The first step after a watch: see the header on restored servers. A watch that broke too early
// for a bookmark is resumed, so that a lost connection costs no list.
Informer::Next Informer::after_watch(bool broken) const {
  const Watching& watch = std::get<Watching>(state_);
  const auto lived = options_.runtime.clock.steady_now() - watch.since;
  bool suspect = false;
  if (watch.progress == Watching::kAsked) suspect = broken && !just_listed_;
  if (watch.progress == Watching::kOpened) suspect = !broken || lived >= kBookmarkPeriod;
  return suspect ? Next::kList : Next::kWatch;
}

void Informer::take_event(WatchEventType type, VersionedObject entry) {
  on_reached();
  Watching& watch = std::get<Watching>(state_);
  watch.last_event = options_.runtime.clock.steady_now();
  watch.progress = Watching::kProgressed;
  if (!entry.version.empty()) version_ = entry.version;
  if (type == WatchEventType::kBookmark) return;
  options_.runtime.metrics.add(kWatchEvents, {{"kind", kind_}}, 1);
  const ObjectKey key = entry.object->key;
  if (type != WatchEventType::kDeleted) note_status(entry);
  const bool different = type == WatchEventType::kDeleted ? table_.remove(key.ns, key.name)
                                                          : table_.put(std::move(entry));
  if (different) changed_.push_back(key);
}

void Informer::take_end(const Status& status) {
  call_.reset();
  alarm_.reset();
  const Watching& watch = std::get<Watching>(state_);
  const bool useful = watch.progress == Watching::kProgressed ||
                      options_.runtime.clock.steady_now() - watch.since >= kUsefulWatch;
  if (useful) failures_ = 0;
  if (status.ok()) {
    count_restart("ended");
    if (!useful) return wait(kBackoff.delay(++failures_, options_.runtime.rng), after_watch(false));
    return begin(after_watch(false));
  }
  switch (status.error().code) {
    case ErrorCode::kGone:
      count_restart("gone");
      return wait(kBackoff.delay(++failures_, options_.runtime.rng), Next::kList);
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kPermissionDenied:
      count_restart("broken");
      return fail(status.error(), after_watch(true));
    default:  // the server refuses the version or the request
      count_restart("refused");
      return fail(status.error(), Next::kList);
  }
}

void Informer::count_restart(std::string_view reason) {
  options_.runtime.metrics.add(kWatchRestarts, {{"kind", kind_}, {"reason", reason}}, 1);
}

void Informer::begin(Next next) { next == Next::kWatch ? begin_watch() : begin_list(); }

// Trouble.

void Informer::wait(std::chrono::nanoseconds delay, Next then) {
  ++epoch_;
  state_ = Waiting{then};
  call_.reset();
  alarm_.reset();
  retry_ = options_.executor.post_after(delay, [this] { begin(std::get<Waiting>(state_).then); });
}

void Informer::fail(const Error& error, Next then) {
  if (!outage_.failing())
    problem_timer_ = options_.executor.post_after(kOutagePatience, [this] {
      outage_.show();
      tell();
    });
  outage_.fail(error.code,
               problem_of(ErrorCode::kUnreadableSource, cause_of_outage(error, has_synced())));
  wait(kBackoff.delay(++failures_, options_.runtime.rng), then);
  settle_refreshes(false);
}

void Informer::on_reached() {
  problem_timer_.reset();
  outage_.end();
}

void Informer::on_missing(const Error& error) {
  if (has_synced() && !missing()) {  // it was there
    const SteadyTime now = options_.runtime.clock.steady_now();
    if (!doubted_since_) doubted_since_ = now;
    if (now - *doubted_since_ < kBelieveMissingAfter) return fail(error, Next::kList);
  }
  problem_timer_.reset();
  replace({}, Known::kMissing);
  const std::string name =
      std::string(options_.resource.plural) + '.' + std::string(options_.resource.group);
  outage_.end(problem_of(ErrorCode::kNotFound,
                         "the API server does not have this resource, so there is none in the "
                         "mesh; install the CustomResourceDefinition " +
                             name + " with version " + std::string(options_.resource.version)));
  wait(kMissingBackoff.delay(++misses_, options_.runtime.rng), Next::kList);
  settle_refreshes(true);
}

Problem Informer::problem_of(ErrorCode code, std::string cause) const {
  return {code, {}, options_.server + options_.resource.path(options_.ns), 0, "", std::move(cause)};
}

}  // namespace osm::inline v1::kubernetes
