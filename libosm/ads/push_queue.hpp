// Order of writes to streams: first come, first served, one response per turn, while the bytes of
// unfinished writes stay under a global limit (TLS keeps a copy of them per connection).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_set>

namespace osm::inline v1::ads {

class PushQueue {
 public:
  static constexpr std::size_t kMaxUnfinishedBytes = std::size_t{64} << 20;

  explicit PushQueue(std::size_t max_unfinished_bytes = kMaxUnfinishedBytes)
      : max_bytes_(max_unfinished_bytes) {}

  // Appends a stream, unless it is in the queue.
  void push(std::uint64_t stream) {
    if (waiting_.insert(stream).second) order_.push_back(stream);
  }

  // The next stream; none if the queue is empty or the limit is reached.
  std::optional<std::uint64_t> pop() {
    while (unfinished_ < max_bytes_ && !order_.empty()) {
      const std::uint64_t stream = order_.front();
      order_.pop_front();
      if (waiting_.erase(stream) > 0) return stream;
    }
    return std::nullopt;
  }

  void remove(std::uint64_t stream) {
    if (waiting_.erase(stream) > 0) std::erase(order_, stream);
  }

  std::size_t waiting() const { return waiting_.size(); }
  std::size_t unfinished_bytes() const { return unfinished_; }

  void started(std::size_t bytes) { unfinished_ += bytes; }
  void finished(std::size_t bytes) { unfinished_ -= bytes; }

 private:
  std::size_t max_bytes_;
  std::size_t unfinished_ = 0;
  std::deque<std::uint64_t> order_;
  std::unordered_set<std::uint64_t> waiting_;
};

}  // namespace osm::inline v1::ads
