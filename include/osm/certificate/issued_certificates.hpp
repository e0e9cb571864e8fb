// The certificates that a control plane issued to proxies and that have not ended, without keys.
// All replicas share one record of them, which outlives their processes. docs/adr/0081
//
//   auto issued = make_issued_certificates({.record = *backend->issued_certificates,
//                                           .runtime = runtime});
//   auto mesh = ControlPlane::start({..., .issued = issued.get()});
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1 {

// A certificate of a proxy.
struct IssuedCertificate {
  CommonName common_name;
  SpiffeId spiffe_id;
  ProxyId proxy_id;
  WorkloadKind kind = WorkloadKind::kMachine;
  std::string serial_number;  // hex; no two certificates have the same
  std::string issuer{};       // certificate::Issuer::id() of its CA; empty: not known
  WallTime not_before;
  WallTime not_after;
  bool claimed = false;  // its proxy has connected with it

  friend bool operator==(const IssuedCertificate&, const IssuedCertificate&) = default;
};

// All that is recorded, ordered by common name, the oldest first.
struct IssuedCertificateList {
  std::vector<IssuedCertificate> certificates{};
  bool dropped = false;  // older ones that have not ended are left out, by the bound
};

// The record, and what this replica has not written yet. Nothing is decided by it.
class OSM_API IssuedCertificates {
 public:
  // The record has this number of certificates, and 900 kB, at most; the oldest ones are dropped.
  static constexpr std::size_t kMost = 2000;

  // Writes what the record lacks. Blocking: for a running call, and until the record has answered.
  // Thread: not of `runtime.blocking`.
  virtual ~IssuedCertificates() = default;

  // Records a certificate. One that is known becomes claimed if this one is. The record is written
  // later, once a second at most; a failure to write it is retried. Thread: any. Blocking: no.
  virtual void add(const IssuedCertificate& certificate) = 0;

  // Result: the certificates of all replicas that have not ended, with those that this one has not
  // written yet. Failure: the record's; kInvalidSyntax (it is damaged). Thread: any but an event
  // loop's. Blocking: until the record is read.
  virtual Result<IssuedCertificateList> list() = 0;

  // The record's failure, once it has lasted for some seconds. Thread: any. Blocking: no.
  virtual std::optional<Problem> problem() const = 0;
};

// Lifetime: all outlive the object.
struct IssuedCertificatesOptions {
  TextRecord& record;  // Backend::issued_certificates
  Runtime runtime;     // `blocking` waits for the record
};

// Reads nothing yet. Failure: none. Thread: any. Blocking: no.
OSM_API std::unique_ptr<IssuedCertificates> make_issued_certificates(
    const IssuedCertificatesOptions& options);

}  // namespace osm::inline v1
