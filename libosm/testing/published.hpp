// Content of a fake, and the subscribers that hear of its changes.
#pragma once

#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "osm/notifier.hpp"

namespace osm::inline v1::testing {

// Any thread reads; one at a time changes. Subscribers get the changed keys in the thread that
// changes the content, without the lock, before the call returns.
template <class Content, class Key>
class Published {
 public:
  // Result: a copy of what `get` returns. It is a function of the content, or a pointer to a
  // member.
  template <class Get>
  auto read(const Get& get) const {
    std::lock_guard lock(mutex_);
    return std::invoke(get, content_);
  }

  // Runs `apply` on the content. It returns the changed keys; none: nobody is told.
  template <class Apply>
  void change(const Apply& apply) {
    std::vector<Key> changed;
    {
      std::lock_guard lock(mutex_);
      changed = apply(content_);
    }
    if (!changed.empty()) subscribers_.notify(changed);
  }

  // The same for one key; `apply` returns true if it changed something.
  template <class Apply>
  void change(const Key& key, const Apply& apply) {
    change([&](Content& content) {
      return apply(content) ? std::vector<Key>{key} : std::vector<Key>{};
    });
  }

  // Sets a member. Tells `changed`, which may be empty, unless the member had that value.
  template <class T>
  void set(T Content::*member, std::type_identity_t<T> value,
           const std::vector<Key>& changed = {}) {
    {
      std::lock_guard lock(mutex_);
      if (content_.*member == value) return;
      content_.*member = std::move(value);
    }
    subscribers_.notify(changed);
  }

  Subscription subscribe(std::function<void(const std::vector<Key>& changed)> on_change) {
    return subscribers_.subscribe(std::move(on_change));
  }

 private:
  mutable std::mutex mutex_;
  Content content_;
  Notifier<const std::vector<Key>&> subscribers_;
};

}  // namespace osm::inline v1::testing
