#include "spec/first_seen_record.hpp"

#include <chrono>
#include <utility>

namespace osm::inline v1::spec {
namespace {

constexpr auto kAgain = std::chrono::seconds(10);  // after a failure

}  // namespace

FirstSeenRecord::FirstSeenRecord(TextRecord& record, const Runtime& runtime,
                                 std::function<void()> on_news)
    : record_(record), log_(runtime.log), on_news_(std::move(on_news)), strand_(runtime.blocking) {}

void FirstSeenRecord::load(std::function<void(const FirstSeen& seen)> loaded) {
  strand_.post([this, loaded = std::move(loaded)]() mutable {
    timer_.reset();
    const auto present = record_.load();
    report(present.ok() ? Status() : present.error());
    if (present.ok()) {
      recorded_ = present->text;
      FirstSeen seen;
      if (const Status read = seen.read(present->text); !read.ok())
        log_.error("the order of objects is lost, so that names decide who has an address",
                   {{"record", record_.name()}, {"cause", read.error().message}});
      return loaded(seen);
    }
    timer_ = strand_.post_after(
        kAgain, [this, loaded = std::move(loaded)]() mutable { load(std::move(loaded)); });
  });
}

void FirstSeenRecord::save(std::string text) {
  strand_.post([this, text = std::move(text)]() mutable {
    unsaved_ = std::move(text);
    if (!timer_) write();
  });
}

void FirstSeenRecord::write() {
  timer_.reset();
  if (unsaved_ == recorded_) return;
  const auto present = record_.load();
  const Status stored =
      present.ok() ? record_.store({unsaved_, present->version}) : present.error();
  if (stored.ok()) {
    recorded_ = unsaved_;
  } else {
    timer_ = strand_.post_after(kAgain, [this] { write(); });
  }
  report(stored);
}

void FirstSeenRecord::report(const Status& done) {
  std::optional<Problem> problem;
  if (!done.ok())
    problem = {done.error().code,
               {},
               record_.name(),
               0,
               "",
               done.error().message + "; a restart may forget which objects came first"};
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(problem_, problem) == problem) return;
  }
  on_news_();
}

std::optional<Problem> FirstSeenRecord::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace osm::inline v1::spec
