#include "kubernetes/client/informer.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/backoff.hpp"
#include "base/json.hpp"
#include "kubernetes/client/reduce.hpp"

namespace osm::inline v1::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Longest delay until a server that is back is noticed, at the cost of one request per kind.
constexpr Backoff kBackoff{milliseconds(500), seconds(4)};
// A controller that installs the kinds itself has them a few seconds after its first look.
constexpr Backoff kMissingBackoff{seconds(2), seconds(60)};
constexpr auto kBelieveMissingAfter = seconds(10);
// The server ends a watch after this time; a dead one is noticed soon after.
constexpr auto kWatchTimeout = seconds(120);
constexpr std::uint64_t kWatchTimeoutJitter = 60;  // seconds, so that kinds take turns
constexpr auto kSilenceSlack = seconds(15);
constexpr auto kBookmarkPeriod = seconds(60);  // API servers send bookmarks about this often
constexpr auto kUsefulWatch = seconds(10);     // a watch of this duration resets the back-off
constexpr auto kShowFailureAfter = seconds(5);
constexpr std::size_t kPageSize = 500;

double in_seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Informer::Informer(InformerOptions options)
    : options_(std::move(options)),
      kind_(options_.resource.kind),
      self_(std::make_shared<Informer*>(this)) {}

Informer::~Informer() { self_.reset(); }

bool Informer::has_synced() const {
  std::lock_guard lock(mutex_);
  return synced_;
}

bool Informer::missing() const {
  std::lock_guard lock(mutex_);
  return missing_;
}

std::optional<Problem> Informer::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

void Informer::start() {
  if (!started()) begin_list();
}

void Informer::stop() {
  if (!started()) return;
  ++epoch_;
  phase_ = Phase::kStopped;
  for (Subscription* handle : {&call_, &alarm_, &retry_, &problem_timer_}) handle->reset();
  failing_since_.reset();
  doubted_since_.reset();
  failures_ = 0;
  changed_ = table_.replace({});
  {
    std::lock_guard lock(mutex_);
    synced_ = missing_ = false;
    problem_.reset();
  }
  news_ = true;
  tell();
  settle_refreshes(false);
}

void Informer::refresh(std::function<void(bool)> done) {
  // A list that began earlier may have missed changes before this call.
  refresh_next_.push_back(std::move(done));
  if (!started()) {
    settle_refreshes(false);
  } else if (phase_ != Phase::kListing) {
    begin_list();
  }
}

void Informer::report() const {
  const auto now = options_.runtime.clock.steady_now();
  const MetricLabel labels[] = {{"kind", kind_}};
  options_.runtime.metrics.set("osm_kubernetes_objects", labels,
                               static_cast<double>(table_.size()));
  options_.runtime.metrics.set("osm_kubernetes_watch_staleness_seconds", labels,
                               failing_since_ ? in_seconds(now - *failing_since_) : 0);
  if (phase_ == Phase::kWatching)
    options_.runtime.metrics.set("osm_kubernetes_watch_event_age_seconds", labels,
                                 in_seconds(now - last_event_));
}

// From the Api's threads to the executor.

VersionedObject Informer::entry_of(boost::json::object object) const {
  const auto& metadata = map_at(object, "metadata");
  std::string version = text_at(metadata, "resourceVersion");
  // Most objects of a repeated list are known: keep one copy.
  if (auto known = table_.find(text_at(metadata, "namespace"), text_at(metadata, "name"));
      known.object && known.version == version)
    return known;
  auto kept = options_.metadata_only
                  ? reduce_to_metadata(options_.resource, std::move(object), options_.server)
                  : reduce(options_.resource, std::move(object), options_.server);
  return {std::move(kept), std::move(version)};
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
}

void Informer::tell() {
  if (changed_.empty() && !news_) return;
  news_ = false;
  std::vector<ObjectKey> changed = std::exchange(changed_, {});
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  options_.on_change(changed);
}

// Lists.

void Informer::begin_list(bool paged) {
  ++epoch_;
  phase_ = Phase::kListing;
  retry_.reset();
  alarm_.reset();
  paged_ = paged;
  fresh_.clear();
  std::move(refresh_next_.begin(), refresh_next_.end(), std::back_inserter(refreshing_));
  refresh_next_.clear();
  request_page("");
}

void Informer::request_page(const std::string& continue_token) {
  ListRequest request{options_.resource, options_.ns, options_.label_selector};
  request.limit = paged_ ? kPageSize : 0;
  request.metadata_only = options_.metadata_only;
  request.continue_token = continue_token;
  call_ = options_.api.list(request, [this, epoch = epoch_](Result<ListPage> page) {
    if (!page.ok())
      return deliver(epoch, [this, error = page.error()] { take_list_failure(error); });
    std::vector<VersionedObject> items;
    items.reserve(page->items.size());
    for (auto& item : page->items) items.push_back(entry_of(std::move(item)));
    page->items.clear();
    deliver(epoch, [this, head = *std::move(page), items = std::move(items)]() mutable {
      take_page(head, std::move(items));
    });
  });
}

void Informer::take_list_failure(const Error& error) {
  if (error.code == ErrorCode::kGone && paged_) return begin_list(false);
  if (error.code == ErrorCode::kNotFound) return on_missing(error);
  doubted_since_.reset();
  fail(error, Phase::kListing);
}

void Informer::take_page(const ListPage& head, std::vector<VersionedObject> items) {
  on_reached();
  std::move(items.begin(), items.end(), std::back_inserter(fresh_));
  if (!head.continue_token.empty()) return request_page(head.continue_token);
  replace(std::exchange(fresh_, {}), false);
  version_ = head.resource_version;
  doubted_since_.reset();
  misses_ = 0;
  options_.runtime.metrics.add("osm_kubernetes_watch_lists_total", {{"kind", kind_}}, 1);
  settle_refreshes(true);
  if (!started()) return;  // stopped by a callback
  begin(refresh_next_.empty() ? Phase::kWatching : Phase::kListing);
}

void Informer::replace(std::vector<VersionedObject> objects, bool missing) {
  const auto changed = table_.replace(std::move(objects));
  changed_.insert(changed_.end(), changed.begin(), changed.end());
  std::lock_guard lock(mutex_);
  news_ = news_ || !synced_ || missing_ != missing;
  synced_ = true;
  missing_ = missing;
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
  phase_ = Phase::kWatching;
  retry_.reset();
  watch_since_ = last_event_ = options_.runtime.clock.steady_now();
  opened_ = progressed_ = false;
  WatchRequest request{options_.resource, options_.ns, options_.label_selector};
  request.resource_version = version_;
  request.metadata_only = options_.metadata_only;
  request.timeout = kWatchTimeout + seconds(options_.runtime.rng.next() % kWatchTimeoutJitter);
  WatchHandler handler;
  handler.on_open = [this, epoch = epoch_] {
    deliver(epoch, [this] {
      opened_ = true;
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
  silence_limit_ = request.timeout + kSilenceSlack;
  arm_alarm(silence_limit_);
}

void Informer::arm_alarm(std::chrono::nanoseconds delay) {
  alarm_ = options_.executor.post_after(delay, [this] { on_silence(); });
}

void Informer::on_silence() {
  const auto idle = options_.runtime.clock.steady_now() - last_event_;
  if (idle < silence_limit_) return arm_alarm(silence_limit_ - idle);
  count_restart("silent");
  failures_ = 0;  // it lived long enough
  fail({ErrorCode::kDeadlineExceeded,
        "watch " + std::string(options_.resource.plural) + ": silent past its timeout"},
       after_watch(false));
  tell();
}

// The first step after a watch: see the header on restored servers. A watch that broke too early
// for a bookmark is resumed, so that a short outage costs no list.
Informer::Phase Informer::after_watch(bool broken) const {
  const auto lived = options_.runtime.clock.steady_now() - watch_since_;
  const bool suspect = opened_ && !progressed_ && (!broken || lived >= kBookmarkPeriod);
  return suspect ? Phase::kListing : Phase::kWatching;
}

void Informer::take_event(WatchEventType type, VersionedObject entry) {
  on_reached();
  last_event_ = options_.runtime.clock.steady_now();
  progressed_ = true;
  if (!entry.version.empty()) version_ = entry.version;
  if (type == WatchEventType::kBookmark) return;
  options_.runtime.metrics.add("osm_kubernetes_watch_events_total", {{"kind", kind_}}, 1);
  const ObjectKey key = entry.object->key;
  const bool different = type == WatchEventType::kDeleted ? table_.remove(key.ns, key.name)
                                                          : table_.put(std::move(entry));
  if (different) changed_.push_back(key);
}

void Informer::take_end(const Status& status) {
  call_.reset();
  alarm_.reset();
  const bool useful =
      progressed_ || options_.runtime.clock.steady_now() - watch_since_ >= kUsefulWatch;
  if (useful) failures_ = 0;
  if (status.ok()) {
    count_restart("ended");
    if (!useful) return wait(kBackoff.delay(++failures_, options_.runtime.rng), after_watch(false));
    return begin(after_watch(false));
  }
  switch (status.error().code) {
    case ErrorCode::kGone:
      count_restart("gone");
      return wait(kBackoff.delay(++failures_, options_.runtime.rng), Phase::kListing);
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kPermissionDenied:
      count_restart("broken");
      return fail(status.error(), after_watch(true));
    default:  // the server refuses the version or the request
      count_restart("refused");
      return fail(status.error(), Phase::kListing);
  }
}

void Informer::count_restart(std::string_view reason) {
  options_.runtime.metrics.add("osm_kubernetes_watch_restarts_total",
                               {{"kind", kind_}, {"reason", reason}}, 1);
}

void Informer::begin(Phase phase) { phase == Phase::kWatching ? begin_watch() : begin_list(); }

// Trouble.

void Informer::wait(std::chrono::nanoseconds delay, Phase then) {
  ++epoch_;
  phase_ = Phase::kWaiting;
  call_.reset();
  alarm_.reset();
  retry_ = options_.executor.post_after(delay, [this, then] { begin(then); });
}

void Informer::fail(const Error& error, Phase then) {
  last_error_ = error;
  fresh_ = {};
  if (!failing_since_) {
    failing_since_ = options_.runtime.clock.steady_now();
    problem_timer_ = options_.executor.post_after(kShowFailureAfter, [this] {
      show_failure();
      tell();
    });
  }
  // Permissions do not return quickly.
  if (error.code == ErrorCode::kPermissionDenied ||
      options_.runtime.clock.steady_now() - *failing_since_ >= kShowFailureAfter)
    show_failure();
  wait(kBackoff.delay(++failures_, options_.runtime.rng), then);
  settle_refreshes(false);
}

void Informer::show_failure() {
  set_problem(problem_of(
      ErrorCode::kUnreadableSource,
      last_error_->message + (has_synced() ? "; what was last read stays in force"
                                           : "; the mesh is not ready until it can be read")));
}

void Informer::on_reached() {
  failing_since_.reset();
  problem_timer_.reset();
  set_problem(std::nullopt);
}

void Informer::on_missing(const Error& error) {
  if (has_synced() && !missing()) {  // it was there
    const SteadyTime now = options_.runtime.clock.steady_now();
    if (!doubted_since_) doubted_since_ = now;
    if (now - *doubted_since_ < kBelieveMissingAfter) return fail(error, Phase::kListing);
  }
  failing_since_.reset();
  problem_timer_.reset();
  replace({}, true);
  const std::string name =
      std::string(options_.resource.plural) + '.' + std::string(options_.resource.group);
  set_problem(problem_of(ErrorCode::kNotFound,
                         "the API server does not have this resource, so there is none in the "
                         "mesh; install the CustomResourceDefinition " +
                             name + " with version " + std::string(options_.resource.version)));
  wait(kMissingBackoff.delay(++misses_, options_.runtime.rng), Phase::kListing);
  settle_refreshes(true);
}

Problem Informer::problem_of(ErrorCode code, std::string cause) const {
  return {code, {}, options_.server + options_.resource.path(options_.ns), 0, "", std::move(cause)};
}

void Informer::set_problem(std::optional<Problem> problem) {
  bool began = false;
  {
    std::lock_guard lock(mutex_);
    if (problem_ == problem) return;
    began = !problem_;
    problem_ = problem;
  }
  news_ = true;
  if (!problem) {
    options_.runtime.log.info("resource is read again", {{"kind", kind_}});
  } else if (began) {
    options_.runtime.log.warning("resource cannot be read",
                                 {{"kind", kind_}, {"cause", problem->text()}});
  }
}

}  // namespace osm::inline v1::kubernetes
