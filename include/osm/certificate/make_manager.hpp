// The certificate manager: a cache by common name over an Issuer, and the schedule that renews
// what it holds. Everything about time is the calendar's, because notAfter is; a calendar that
// jumps, or a host that was suspended, is noticed within a minute and the schedule made anew.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::certificate {

// Validity: between 90 % and 100 % of what was asked, at random. Renewal: at a random point between
// 1/2 and 2/3 of the certificate's life, so at least a third of it remains, and those issued in one
// minute renew over a sixth of their life. After a failure: 1 s, doubled up to 5 min, less a random
// half; meanwhile the old certificate is served.
struct ManagerOptions {
  std::unique_ptr<Issuer> issuer;
  Runtime runtime;  // what is issued in the background blocks its `blocking`, one at a time
  // Read at every issuance; any thread. ECDSA P-256 when empty.
  std::function<KeyParameters()> key_parameters = {};
};

// Lifetime: what `options` borrows outlives the manager. Its destructor waits for a renewal or a
// subscriber's callback that is running, so it must not be called from inside one.
OSM_API std::unique_ptr<Manager> make_manager(ManagerOptions options);

}  // namespace osm::inline v1::certificate
