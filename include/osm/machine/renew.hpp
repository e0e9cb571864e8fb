// Renewal of a machine's proxy certificate, of its trust bundle, and of the certificate that gRPC
// libraries read from files. The controller decides what is due. Envoy needs no restart.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// One check of a machine's files.
struct RenewOptions {
  std::string directory;     // absolute: what bootstrap() or join() wrote
  std::string controller{};  // HOST:PORT of the ADS server; empty: as the bootstrap says
  bool force = false;        // replace a current certificate too
  std::chrono::milliseconds timeout{10000};  // for each answer
  // True, in a process of root: while the controller is asked, the whole process has the effective
  // user and group of the key's owner. Interception leaves that user's traffic alone and redirects
  // all other traffic into the mesh, where no controller is. False: the process runs as that user,
  // or its traffic is not redirected.
  bool as_proxy_user = false;
};

// The change that a check made.
enum class Renewal {
  kCurrent,                      // none was due
  kTrustBundleReplaced,          // and perhaps the controller's names
  kNamesReplaced,                // SPIFFE ids by which Envoy knows the controller
  kWorkloadCertificateReplaced,  // of gRPC libraries, or their roots
  kRenewed,                      // the proxy certificate, and all of the above that was due
};

// "current", "trust bundle replaced", "names replaced", "workload certificate replaced", "renewed".
// Failure: none. Thread: any. Blocking: no.
constexpr std::string_view renewal_text(Renewal renewal) {
  switch (renewal) {
    case Renewal::kTrustBundleReplaced:
      return "trust bundle replaced";
    case Renewal::kNamesReplaced:
      return "names replaced";
    case Renewal::kWorkloadCertificateReplaced:
      return "workload certificate replaced";
    case Renewal::kRenewed:
      return "renewed";
    case Renewal::kCurrent:
      break;
  }
  return "current";
}

// Result of a check.
struct RenewResult {
  Renewal renewal = Renewal::kCurrent;
  WallTime not_after;           // of the proxy certificate: it can be renewed until then
  WallTime served_until;        // Envoy is served with it until then; not_after at the latest
  std::string serial_number{};  // of a new proxy certificate, else empty
};

// Asks the controller which of the machine's files are current, and replaces the others. A new key
// is made here and sent nowhere. The controller's chain must end in the machine's trust bundle, and
// its only URI SAN must be one that the bootstrap names: nothing is sent to another server.
// Failure: kCertificateExpired (bootstrap or join again), kConflict (another process renews),
// kStorage, kInvalidSyntax, kInvalidCertificate (a file; another server than the controller; an
// answer that does not fit the request), kInvalidArgument (the controller's names for this machine
// fit into no certificate request), kUnknownProxy, kNotFound, kPermissionDenied (the controller
// refuses this machine), kUnavailable, kDeadlineExceeded (they may pass). The files stay as they
// are, but for kStorage: if the files of gRPC libraries cannot be written, the proxy certificate is
// new nevertheless, and the next check replaces the others.
// Thread: any; with `as_proxy_user` no other call of this library at the same time, and no thread
// that needs root. Blocking: up to `timeout` for each of three answers, and on the files. If
// nothing else in the process used gRPC when the call began, up to a second more, until gRPC's
// threads have ended.
OSM_API Result<RenewResult> renew(const RenewOptions& options, const Clock& clock);

// Pauses between checks of an agent that keeps running. Thread: one at a time.
class OSM_API RenewalPace {
 public:
  // `every`: the longest pause; not negative. Lifetime: `rng` outlives the pace.
  RenewalPace(std::chrono::nanoseconds every, Rng& rng) : every_(every), rng_(rng) {}

  // Pause after a check: between a half and all of `every`, so that machines that started together
  // do not ask together. After failures it is shorter: a second at first, five minutes at most.
  // Blocking: no.
  std::chrono::nanoseconds pause_after(bool succeeded);

 private:
  std::chrono::nanoseconds every_;
  Rng& rng_;
  unsigned failures_ = 0;
};

}  // namespace osm::inline v1::machine
