// The certificate manager: a cache by common name over an Issuer, and the schedule of renewals. All
// times are the calendar's, because notAfter is. The manager notices a jump of the calendar, or a
// suspended host, within a minute and schedules renewals again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/detail/api.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::certificate {

// Validity: between 90 % and 100 % of the requested one, at random. Renewal: at a random time
// between 1/2 and 2/3 of the certificate's life, so at least a third of it remains, and
// certificates of one minute renew over a sixth of their life. Back-off after a failure: 1 s,
// doubled up to 5 min, less a random half; the old certificate is served meanwhile.
struct ManagerOptions {
  std::shared_ptr<Issuer> issuer;
  Runtime runtime;  // what is issued in the background blocks its `blocking`, one at a time
  // Called at every issuance, on any thread. Empty: ECDSA P-256.
  std::function<KeyParameters()> key_parameters = {};
  AuditSink* audit = nullptr;  // outlives the manager; null: no audit log
};

// Lifetime: everything that `options` borrows outlives the manager. Its destructor waits for a
// running renewal or callback, so it must not run inside one.
OSM_API std::unique_ptr<Manager> make_manager(ManagerOptions options);

}  // namespace osm::inline v1::certificate
