#include "osm/spec/directory_store.hpp"

#include <sys/inotify.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/catch_up.hpp"
#include "base/digest.hpp"
#include "base/may_wait.hpp"
#include "base/strand.hpp"
#include "osm/notifier.hpp"
#include "spec/directory_scan.hpp"
#include "spec/first_seen.hpp"
#include "spec/first_seen_record.hpp"
#include "spec/inotify.hpp"
#include "spec/object_index.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr Histogram kSpecDirectoryLoad{"osm_spec_directory_load_seconds",
                                       "Seconds to read the mesh directory"};
constexpr Counter kFilesRead{"osm_spec_file_reads_total", "Files of the mesh directory read"};
constexpr Counter kFilesParsed{"osm_spec_file_parses_total", "Files of the mesh directory parsed"};
constexpr Gauge kSpecFiles{"osm_spec_files", "Files in the mesh directory"};

using std::chrono::milliseconds;

constexpr auto kCoalesce = milliseconds(5);
constexpr auto kSettle = milliseconds(50);
// A truncated file is empty before inotify reports the truncation: on a busy disk by more than
// kSettle.
constexpr auto kSettleEmpty = std::chrono::seconds(1);
constexpr auto kRescan = std::chrono::seconds(10);

class DirectoryStore final : public ObjectStore {
 public:
  DirectoryStore(const DirectoryStoreOptions& options, std::unique_ptr<Inotify> inotify)
      : directory_(options.directory),
        kinds_(options.kinds),
        log_(options.runtime.log),
        metrics_(options.runtime.metrics),
        clock_(options.runtime.clock),
        inotify_(std::move(inotify)),
        strand_(options.runtime.executor),
        first_seen_(options.first_seen) {
    if (first_seen_)
      record_.emplace(*first_seen_, options.runtime,
                      [this] { strand_.post([this] { publish(); }); });
    readable_ = options.watcher.watch(inotify_->fd(), [this] {
      inotify_->read_available();
      strand_.post([this] { on_events(); });
    });
    if (!record_) {
      strand_.post([this] { first_look(); });
      return;
    }
    // Nothing is announced before the order is known: a newcomer could take an address.
    record_->load([this](const FirstSeen& seen) {
      strand_.post([this, seen] {
        seen_ = seen;
        first_look();
      });
    });
  }

  ~DirectoryStore() override {
    readable_.reset();
    if (record_) record_->stop();
    strand_.stop();
  }

  std::vector<std::shared_ptr<const Object>> list(const GroupKind& kind) const override {
    std::lock_guard lock(mutex_);
    return index_.list(kind);
  }

  std::shared_ptr<const Object> get(const ObjectKey& key) const override {
    std::lock_guard lock(mutex_);
    return index_.get(key);
  }

  bool has_synced() const override {
    std::lock_guard lock(mutex_);
    return synced_;
  }

  bool catch_up(const ObjectKey&, milliseconds timeout) override {
    require_may_wait(strand_, "ObjectStore::catch_up");
    return wait_for_catch_up(strand_, timeout, [this](const CatchUpCaller& caller) {
      waiting_.add(caller, [this] { return unsettled_.empty() && !anything_to_do(); });
      flush();  // the kernel has queued events of every write that has returned
    });
  }

  std::vector<Problem> list_problems() const override {
    std::lock_guard lock(mutex_);
    return problems_;
  }

  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override {
    return notifier_.subscribe(std::move(on_change));
  }

 private:
  // State of a file after a successful or failed read.
  struct KnownFile {
    std::optional<FileSignature> signature;  // nullopt: read it again in the next scan
    std::optional<Digest> content;           // nullopt: it could not be read
  };
  using Observation = std::optional<FileSignature>;  // nullopt: there is no such file
  struct Unsettled {
    Observation seen;
    SteadyTime since;
  };

  // Everything below runs on the strand. mutex_ guards changes of index_, problems_ and synced_.

  void first_look() {
    const SteadyTime start = clock_.steady_now();
    scan();
    first_ = false;
    absorb_events();
    finish_round();
    metrics_.observe(kSpecDirectoryLoad, {}, clock_.steady_now() - start);
    log_.info("mesh directory read", {{"directory", directory_},
                                      {"files", std::to_string(known_.size())},
                                      {"synced", has_synced() ? "true" : "false"}});
    arm_rescan();
  }

  void arm_rescan() {
    rescan_timer_ = strand_.post_after(kRescan, [this] {
      rescan_ = true;
      flush();
      arm_rescan();
    });
  }

  void on_events() {
    absorb_events();
    if (anything_to_do()) arm_flush();
  }

  bool anything_to_do() const { return rescan_ || !closed_.empty() || !dirty_.empty(); }

  void arm_flush() {
    if (flush_armed_) return;
    flush_armed_ = true;
    flush_timer_ = strand_.post_after(kCoalesce, [this] {
      flush_armed_ = false;
      flush();
    });
  }

  void flush() {
    absorb_events();
    const auto dirty = std::exchange(dirty_, {});
    for (const std::string& path : std::exchange(closed_, {})) look(path, true);
    if (std::exchange(rescan_, false)) {
      scan();
    } else {
      for (const std::string& path : dirty) look(path, false);
    }
    finish_round();
  }

  void finish_round() {
    publish();
    if (!unsettled_.empty()) arm_settle();
    if (anything_to_do()) arm_flush();
    // While the directory is away, what is in it now is not known.
    waiting_.settle(root_.has_value());
  }

  void arm_settle() {
    if (settle_armed_) return;
    settle_armed_ = true;
    settle_timer_ = strand_.post_after(kSettle, [this] {
      settle_armed_ = false;
      settle();
    });
  }

  // Applies observations that stood still; the others wait for the next round.
  void settle() {
    absorb_events();
    for (const auto& [path, before] : std::exchange(unsettled_, {})) {
      const Observation now = signature_of(full_path(path));
      if (now != before.seen) {
        look(path, false);
      } else if (clock_.steady_now() - before.since <
                 (now && now->size == 0 ? kSettleEmpty : kSettle)) {
        unsettled_.emplace(path, before);
      } else {
        apply(path, now, true);
      }
    }
    finish_round();
  }

  std::string full_path(const std::string& below) const {
    return below.empty() ? directory_ : directory_ + '/' + below;
  }

  void absorb_events() {
    for (const Inotify::Event& event : inotify_->take()) {
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        log_.warning("file events were lost; reading the whole mesh directory again",
                     {{"directory", directory_}});
        writing_.clear();
        rescan_ = distrust_ = true;
      } else if (event.watch == parent_watch_) {
        if (event.name == base_name()) rescan_ = true;
      } else if (const auto at = watches_.find(event.watch); at != watches_.end()) {
        for (const std::string& below : at->second) absorb(event, below);
      }
    }
  }

  void absorb(const Inotify::Event& event, const std::string& below) {
    constexpr std::uint32_t kGone = IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT;
    constexpr std::uint32_t kReplaced = IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
    if ((event.mask & (kGone | IN_ISDIR)) != 0 || event.name.empty()) {
      rescan_ = true;
      return;
    }
    // Kubernetes replaces the content of a mounted ConfigMap by renaming the link "..data".
    if (event.name.starts_with("..")) rescan_ = true;
    if (!is_object_file_name(event.name)) {
      // A new link to a directory looks like a new file.
      if ((event.mask & (kReplaced | IN_CREATE)) != 0 && !event.name.starts_with('.'))
        rescan_ = true;
      return;
    }
    const std::string path = below.empty() ? event.name : below + '/' + event.name;
    if ((event.mask & IN_MODIFY) != 0) {
      writing_.insert(path);
      return;
    }
    if ((event.mask & (IN_CLOSE_WRITE | kReplaced)) != 0) writing_.erase(path);
    if ((event.mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0) {
      closed_.insert(path);
    } else {
      dirty_.insert(path);
    }
  }

  std::string base_name() const { return directory_.substr(directory_.find_last_of('/') + 1); }

  void watch_parent() {
    const auto slash = directory_.find_last_of('/');
    const std::string parent = slash == std::string::npos ? "."
                               : slash == 0               ? "/"
                                                          : directory_.substr(0, slash);
    const auto watch = inotify_->add(parent);
    parent_watch_ = watch ? *watch : -1;
  }

  void watch_directory(const std::string& below, std::map<int, std::set<std::string>>& watches) {
    const auto watch = inotify_->add(full_path(below));
    if (watch) {
      watches[*watch].insert(below);
    } else {
      log_.debug("directory not watched", {{"cause", watch.error().message}});
    }
  }

  void scan() {
    watch_parent();
    std::map<int, std::set<std::string>> watches;
    const DirectoryScan found = scan_directory(
        directory_, [&](const std::string& below) { watch_directory(below, watches); });
    for (const auto& [watch, below] : watches_)
      if (!watches.contains(watch) && watch != parent_watch_) inotify_->remove(watch);
    watches_ = std::move(watches);

    source_problems_.clear();
    for (const auto& [below, why] : found.unreadable)
      add_source_problem(
          full_path(below),
          "the directory cannot be read (" + why +
              "); what was last read from it stays in force. Restore it or its permissions");
    judge_root(found);
    if (std::exchange(distrust_, false))
      for (auto& [path, file] : known_) file.signature.reset();
    for (const auto& [path, signature] : found.files) {
      const auto at = known_.find(path);
      if (at == known_.end() || at->second.signature != signature) look(path, first_);
    }
    if (refilling_) return;
    for (const auto& [path, file] : known_)
      if (!found.files.contains(path) && !under_unreadable(path, found)) look(path, false);
  }

  // If the directory was replaced by an empty one, keep the old objects until a file appears: the
  // new directory is being filled.
  void judge_root(const DirectoryScan& found) {
    if (!found.root) {
      root_.reset();  // a new directory may get the same inode
      return;
    }
    const bool replaced = found.root != std::exchange(root_, found.root);
    refilling_ = !known_.empty() && found.files.empty() && (replaced || refilling_);
    if (!refilling_) return;
    add_source_problem(directory_,
                       "the directory came back empty; the objects of its predecessor "
                       "stay in effect until it holds an object file");
  }

  void add_source_problem(const std::string& path, const std::string& cause) {
    source_problems_.push_back({ErrorCode::kUnreadableSource, {}, path, 0, "", cause});
  }

  static bool under_unreadable(const std::string& path, const DirectoryScan& found) {
    return std::any_of(found.unreadable.begin(), found.unreadable.end(), [&](const auto& entry) {
      return entry.first.empty() || path.starts_with(entry.first + '/');
    });
  }

  // `complete`: the writer closed the file, so it is read now, whatever its signature.
  void look(const std::string& path, bool complete) {
    if (refilling_) rescan_ = true;  // this may be its first file
    if (writing_.contains(path)) return;
    const Observation now = signature_of(full_path(path));
    if (complete && now) {
      unsettled_.erase(path);
      apply(path, now, first_);
      return;
    }
    const auto at = known_.find(path);
    const bool unchanged = at == known_.end() ? !now : now && at->second.signature == now;
    if (unchanged) {
      unsettled_.erase(path);
    } else {
      doubt(path, now);
    }
  }

  // Applies `seen` after it stood still for long enough.
  void doubt(const std::string& path, const Observation& seen) {
    const auto [at, added] = unsettled_.try_emplace(path, Unsettled{seen, clock_.steady_now()});
    if (!added && at->second.seen != seen) at->second = {seen, clock_.steady_now()};
  }

  // `settled`: the observation stood still.
  void apply(const std::string& path, const Observation& now, bool settled) {
    if (writing_.contains(path)) return;
    if (!now) {
      // A file in a vanished directory does not count as deleted: the directory is reported.
      if (refilling_) return;
      if (!is_directory(directory_)) {
        rescan_ = true;
        return;
      }
      known_.erase(path);
      std::lock_guard lock(mutex_);
      index_.remove(path);
      return;
    }
    auto content = read_file(full_path(path));
    metrics_.add(kFilesRead, {}, 1);
    // A writer may have begun meanwhile, or even finished. Then the content may be half a file, and
    // the writer's close event triggers another read.
    absorb_events();
    if (writing_.contains(path) || closed_.contains(path)) return;
    if (!content) {
      take_unreadable(path, content.error(), *now);
    } else if (!content->stable ||
               (content->bytes.empty() && !(settled && content->signature == now))) {
      // A truncation is visible in the file a moment before its inotify event.
      doubt(path, content->signature);
    } else {
      take_content(path, *content);
    }
  }

  void take_unreadable(const std::string& path, const Error& error, const FileSignature& now) {
    if (error.code == ErrorCode::kNotFound) {
      dirty_.insert(path);
      return;
    }
    // A file that is too large is read again after it changed; an unreadable one is tried again.
    KnownFile& file = known_[path];
    file = {};
    if (error.code == ErrorCode::kTooLarge) file.signature = now;
    ObjectFile broken;
    broken.broken.push_back({error.code,
                             {},
                             full_path(path),
                             0,
                             "",
                             error.message + "; its last good content stays in force"});
    std::lock_guard lock(mutex_);
    index_.put(path, std::move(broken));
  }

  void take_content(const std::string& path, const FileContent& content) {
    const Digest digest = digest_of(content.bytes);
    KnownFile& file = known_[path];
    const bool same = file.content == digest;
    file = {content.signature, digest};
    if (same) return;
    ObjectFile objects = read_object_file(content.bytes, full_path(path), kinds_);
    for (auto& object : objects.objects) object = seen_.placed(std::move(object));
    metrics_.add(kFilesParsed, {}, 1);
    std::lock_guard lock(mutex_);
    index_.put(path, std::move(objects));
  }

  void publish() {
    ObjectIndex::Changes changes;
    bool more = false;
    {
      std::lock_guard lock(mutex_);
      changes = index_.take_changes();
      std::vector<Problem> problems = index_.problems();
      problems.insert(problems.end(), source_problems_.begin(), source_problems_.end());
      if (auto problem = record_ ? record_->problem() : std::nullopt)
        problems.push_back(*std::move(problem));
      std::sort(problems.begin(), problems.end());
      more = changes.moved || problems != problems_;
      problems_ = std::move(problems);
      const bool complete = !first_ && source_problems_.empty() && !index_.any_broken() &&
                            unsettled_.empty() && writing_.empty() && !anything_to_do();
      for (const ObjectKey& key : changes.keys)
        if (!index_.get(key)) seen_.forget(key);
      if (!synced_ && complete) {
        synced_ = more = true;
        seen_.keep_only([&](const ObjectKey& key) { return index_.get(key) != nullptr; });
      }
    }
    if (seen_.end_look() && record_) record_->save(seen_.text());
    metrics_.set(kSpecFiles, {}, known_.size());
    if (!changes.keys.empty() || more) notifier_.notify(changes.keys);
  }

  const std::string directory_;
  const Kinds kinds_;
  LogSink& log_;
  MetricsSink& metrics_;
  const Clock& clock_;
  const std::unique_ptr<Inotify> inotify_;

  int parent_watch_ = -1;
  std::map<int, std::set<std::string>> watches_;  // watch → directories below the root
  std::map<std::string, KnownFile> known_;        // by path below the root
  std::set<std::string> writing_;                 // modified, and not closed yet
  std::set<std::string> closed_;                  // closed by its writer, to be read
  std::set<std::string> dirty_;                   // to be checked
  std::optional<std::pair<std::uint64_t, std::uint64_t>> root_;  // device and inode
  bool refilling_ = false;                                       // see judge_root()
  std::map<std::string, Unsettled> unsettled_;  // changed without an event: must stand still first
  CatchUpWaiters waiting_;                      // for a complete read
  bool first_ = true;                           // until the first look has ended
  bool rescan_ = false;
  bool distrust_ = false;  // events were lost, so signatures prove nothing
  std::vector<Problem> source_problems_;
  FirstSeen seen_;

  mutable std::mutex mutex_;
  ObjectIndex index_;
  std::vector<Problem> problems_;
  bool synced_ = false;

  Notifier<const std::vector<ObjectKey>&> notifier_;
  Strand strand_;
  const std::shared_ptr<TextRecord> first_seen_;
  std::optional<FirstSeenRecord> record_;
  Subscription readable_;
  bool flush_armed_ = false;
  bool settle_armed_ = false;
  Subscription flush_timer_;
  Subscription settle_timer_;
  Subscription rescan_timer_;
};

}  // namespace

Result<std::unique_ptr<ObjectStore>> make_directory_store(const DirectoryStoreOptions& options) {
  DirectoryStoreOptions cleaned = options;
  while (cleaned.directory.size() > 1 && cleaned.directory.ends_with('/'))
    cleaned.directory.pop_back();
  if (cleaned.directory.empty())
    return Error{ErrorCode::kInvalidArgument, "no mesh directory named"};
  OSM_TRY(auto inotify, Inotify::open());
  return std::unique_ptr<ObjectStore>(
      std::make_unique<DirectoryStore>(cleaned, std::move(inotify)));
}

}  // namespace osm::inline v1::spec
