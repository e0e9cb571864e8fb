// The handles of one board's ReplicaBoard::stand().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "base/strand.hpp"
#include "osm/notifier.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1 {

// Lifetime: the strand outlives it, and it outlives its handles.
class Stands {
 public:
  // `leads`: ReplicaBoard::leads(). `on_change` runs after the first handle has come and after the
  // last one has gone, on the thread that takes or destroys it; null: nothing.
  Stands(Strand& strand, std::function<bool()> leads, std::function<void()> on_change = {})
      : strand_(strand), leads_(std::move(leads)), on_change_(std::move(on_change)) {}

  // As ReplicaBoard::stand(). `on_begin` runs on the strand.
  Subscription add(std::function<void()> on_begin) {
    auto handle = std::make_shared<Handle>(*this);
    if (on_begin) {
      auto told = std::make_shared<bool>(false);  // on the strand
      auto call = [told, on_begin = std::move(on_begin)] {
        *told = true;
        on_begin();
      };
      handle->begins = begins_.subscribe(call);
      // This replica may lead already.
      handle->first = strand_.post_after({}, [this, told, call = std::move(call)] {
        if (!*told && leads_()) call();
      });
    }
    return Subscription(std::move(handle));
  }

  // True while there is a handle. Thread: any. Blocking: no.
  bool any() const { return handles_ > 0; }

  // This replica begins to lead. On the strand.
  void begin() const { begins_.notify(); }

 private:
  struct Handle {
    explicit Handle(Stands& stands) : owner(stands) {
      if (owner.handles_++ == 0 && owner.on_change_) owner.on_change_();
    }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
      first.reset();
      begins.reset();
      if (--owner.handles_ == 0 && owner.on_change_) owner.on_change_();
    }

    Stands& owner;
    Subscription begins, first;
  };

  Strand& strand_;
  const std::function<bool()> leads_;
  const std::function<void()> on_change_;
  std::atomic<int> handles_{0};
  Notifier<> begins_;
};

}  // namespace osm::inline v1
