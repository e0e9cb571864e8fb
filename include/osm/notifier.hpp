// Helper to implement subscribe(): callbacks with RAII handles; no callback outlives its handle.
// The whole library uses it; other providers and stores may use it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "osm/detail/call_gate.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

// notify() calls every subscriber in turn, in the caller's thread, without holding a lock.
// Callbacks may subscribe and unsubscribe. Concurrent notify() calls are allowed; a callback may
// then run concurrently with itself, unless the owner serializes the calls. Owners in this library
// do.
template <class... Args>
class Notifier {
 public:
  using Callback = std::function<void(Args...)>;

  // Thread: any. Blocking: no. The handle's destructor waits for a running call, unless it is
  // destroyed inside that call.
  Subscription subscribe(Callback callback) {
    auto entry = std::make_shared<Entry>(std::move(callback));
    {
      std::lock_guard lock(state_->mutex);
      state_->entries.push_back(entry);
    }
    return Subscription(std::shared_ptr<void>(
        entry.get(), [entry, weak = std::weak_ptr(state_)](void*) { unsubscribe(entry, weak); }));
  }

  // Runs the callbacks. Thread: any. Blocking: as long as the callbacks take.
  void notify(Args... args) const {
    std::vector<std::shared_ptr<Entry>> entries;
    {
      std::lock_guard lock(state_->mutex);
      entries.assign(state_->entries.begin(), state_->entries.end());
    }
    for (const auto& entry : entries) entry->gate.run([&] { entry->callback(args...); });
  }

 private:
  struct Entry {
    explicit Entry(Callback c) : callback(std::move(c)) {}
    Callback callback;
    detail::CallGate gate;
  };
  struct State {
    std::mutex mutex;
    std::list<std::shared_ptr<Entry>> entries;
  };

  static void unsubscribe(const std::shared_ptr<Entry>& entry, const std::weak_ptr<State>& weak) {
    if (auto state = weak.lock()) {
      std::lock_guard lock(state->mutex);
      state->entries.remove(entry);
    }
    // Destroy the captured values here, not whenever a notify() releases the entry.
    if (entry->gate.close()) entry->callback = nullptr;
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace osm::inline v1
