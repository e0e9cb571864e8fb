// RAII handle of a subscription, timer or registration. After its destructor (or reset) returns, no
// callback runs or will run. A callback may destroy its own handle; the destructor then does not
// wait.
#pragma once

#include <memory>
#include <utility>

namespace osm::inline v1 {

class [[nodiscard]] Subscription {
 public:
  Subscription() = default;
  // `handle`'s deleter ends the subscription.
  explicit Subscription(std::shared_ptr<void> handle) : handle_(std::move(handle)) {}
  Subscription(Subscription&&) noexcept = default;
  Subscription& operator=(Subscription&&) noexcept = default;
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Ends the subscription now, as the destructor would.
  void reset() { handle_.reset(); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 private:
  std::shared_ptr<void> handle_;
};

}  // namespace osm::inline v1
