#include "etcd/object_watch.hpp"

#include <atomic>
#include <boost/json.hpp>
#include <utility>

#include "base/base64.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;

// Data that was read and not handled yet. A watch that is further behind is given up: a list is
// less than what it would have to tell.
constexpr std::size_t kMaxQueued = 64 * 1024 * 1024;

}  // namespace

// Shared with the tasks on the way to the executor, which may run after the watch has gone.
struct ObjectWatch::Arrivals {
  explicit Arrivals(ObjectWatchOptions o) : options(std::move(o)) {}

  // On a thread of the stream.
  void take(const std::shared_ptr<Arrivals>& self, std::string_view data) {
    if (failed) return;
    const std::size_t size = data.size();
    auto answers = reader.read(data);
    if (answers.ok() && (queued += size) > kMaxQueued)
      answers = Error{ErrorCode::kTooLarge, "the watch tells more than can be handled"};
    failed = !answers.ok();
    options.executor.post([self, size, answers = std::move(answers)] {
      self->queued -= size;
      if (!answers.ok()) return self->end(answers.error());
      for (const WatchAnswer& answer : *answers)
        if (self->living) self->options.on_answer(answer);
    });
  }

  // On the executor.
  void end(const Status& status) {
    if (std::exchange(living, false)) options.on_end(status);
  }

  const ObjectWatchOptions options;
  WatchReader reader;
  bool failed = false;  // with reader, of the stream's thread
  std::atomic<std::size_t> queued{0};
  bool living = true;  // of the executor
};

Result<std::unique_ptr<ObjectWatch>> ObjectWatch::open(ObjectWatchOptions options) {
  const std::string body =
      json::serialize(json::object{{"create_request",
                                    {{"key", base64(options.keys.begin())},
                                     {"range_end", base64(options.keys.end())},
                                     {"start_revision", std::to_string(options.start_revision)},
                                     {"progress_notify", true},
                                     {"fragment", true}}}});
  const auto arrivals = std::make_shared<Arrivals>(std::move(options));
  std::unique_ptr<ObjectWatch> watch(new ObjectWatch(arrivals));
  OSM_TRY(watch->stream_,
          arrivals->options.gateway.open_stream(
              arrivals->options.endpoint, {"watch", body},
              {.on_data = [arrivals](std::string_view data) { arrivals->take(arrivals, data); },
               .on_end =
                   [arrivals](const Status& status) {
                     arrivals->options.executor.post([arrivals, status] { arrivals->end(status); });
                   }}));
  return watch;
}

ObjectWatch::~ObjectWatch() { arrivals_->living = false; }

}  // namespace osm::inline v1::etcd
