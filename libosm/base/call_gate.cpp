#include "osm/detail/call_gate.hpp"

#include <algorithm>

namespace osm::inline v1::detail {

bool CallGate::enter() {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  runners_.push_back(std::this_thread::get_id());
  return true;
}

bool CallGate::leave() {
  const std::lock_guard lock(mutex_);
  // One entry only: a call that calls again is inside twice.
  runners_.erase(std::find(runners_.begin(), runners_.end(), std::this_thread::get_id()));
  idle_.notify_all();
  return !closed_;
}

bool CallGate::inside() const {
  const std::lock_guard lock(mutex_);
  return std::find(runners_.begin(), runners_.end(), std::this_thread::get_id()) != runners_.end();
}

bool CallGate::close() {
  const bool own = inside();
  std::unique_lock lock(mutex_);
  closed_ = true;
  if (own) return false;
  idle_.wait(lock, [this] { return runners_.empty(); });
  return true;
}

}  // namespace osm::inline v1::detail
