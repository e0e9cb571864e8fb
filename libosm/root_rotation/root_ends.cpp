#include "root_rotation/root_ends.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/openssl.hpp"
#include "base/times.hpp"

namespace osm::inline v1 {
namespace root_rotation {
namespace {

constexpr Gauge kRootNotAfter{"osm_root_not_after_seconds",
                              "End of a trusted root, in seconds since 1970, by root",
                              {"root"}};

constexpr std::chrono::days kWarnBefore{30};

}  // namespace

void fill_in_end(RootStatus& status, const RootRecord& root, const certificate::Issuer* issuer) {
  if (!is_trusted(root.state)) return;
  const openssl::CleanErrorQueue clean;
  const auto certificates = openssl::parse_certificates(root.bundle_pem);
  if (!certificates.ok()) return;
  WallTime end = issuer ? issuer->not_after() : WallTime::max();
  for (const openssl::X509Handle& each : *certificates)
    end = std::min(end, openssl::not_after(*each));
  status.not_after = end;
  status.fingerprint = openssl::fingerprint(*certificates->front()).value_or("");
}

// A sink keeps a series for ever. A root that is no longer trusted never ends.
void RootEndMetric::set(const std::vector<RootStatus>& roots) {
  std::set<std::string> before = std::exchange(shown_, {});
  for (const RootStatus& root : roots) {
    if (!root.not_after) continue;
    metrics_.set(kRootNotAfter, {{"root", root.name}}, root.not_after->time_since_epoch());
    before.erase(root.name);
    shown_.insert(root.name);
  }
  for (const std::string& gone : before)
    metrics_.set(kRootNotAfter, {{"root", gone}}, std::numeric_limits<double>::infinity());
}

}  // namespace root_rotation

std::vector<Problem> problems_of(const std::vector<RootStatus>& roots, WallTime now) {
  std::vector<Problem> problems;
  for (const RootStatus& root : roots) {
    // The mesh is already leaving a draining root.
    if (!root.not_after || root.state == "draining" ||
        *root.not_after - now > root_rotation::kWarnBefore)
      continue;
    const bool ended = *root.not_after <= now;
    problems.push_back(
        {.code = ended ? ErrorCode::kCertificateExpired : ErrorCode::kRootEnding,
         .object = {},
         .path = "root " + root.name,
         .field = {},
         .cause = (ended ? "its CA ended on " : "its CA ends on ") + rfc3339(*root.not_after) +
                  (ended ? ", and nothing that it signed is valid: rotate to another root "
                           "(docs/rotate-root.md) and bootstrap every proxy anew"
                         : ", and everything that it signed with it: rotate to another root "
                           "(docs/rotate-root.md)")});
  }
  return problems;
}

}  // namespace osm::inline v1
