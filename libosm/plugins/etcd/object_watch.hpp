// One watch of all objects at one endpoint: its answers arrive on an executor, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "etcd/gateway.hpp"
#include "etcd/object_keys.hpp"
#include "etcd/watch_answers.hpp"
#include "osm/executor.hpp"

namespace osm::inline v1::etcd {

struct ObjectWatchOptions {
  const Gateway& gateway;  // these outlive the watch
  const ObjectKeys& keys;
  Executor& executor;
  std::size_t endpoint = 0;
  std::int64_t start_revision = 0;
  // Thread: of the executor. on_end is the last call; both are called only while the watch lives,
  // and may destroy it.
  std::function<void(const WatchAnswer&)> on_answer;
  std::function<void(const Status&)> on_end;
};

class ObjectWatch {
 public:
  // Failure: as Gateway::open_stream(). Thread: of the executor. Blocking: for a login.
  static Result<std::unique_ptr<ObjectWatch>> open(ObjectWatchOptions options);
  ~ObjectWatch();  // Thread: of the executor
  ObjectWatch(const ObjectWatch&) = delete;

 private:
  struct Arrivals;
  explicit ObjectWatch(std::shared_ptr<Arrivals> arrivals) : arrivals_(std::move(arrivals)) {}

  std::shared_ptr<Arrivals> arrivals_;
  Stream stream_;
};

}  // namespace osm::inline v1::etcd
