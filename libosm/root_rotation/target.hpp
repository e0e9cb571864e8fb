// The control plane of this process, as far as root rotation acts on it.
#pragma once

#include <string>

#include "model/certificate_progress.hpp"
#include "osm/result.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::root_rotation {

class Target {
 public:
  virtual ~Target() = default;

  // Issues under the new names and admits peers by them from now on. Each old certificate stays
  // until its replacement is there. Failure: the manager's, if the control plane's own certificate
  // could not be issued. Everything else is done then, and the caller repeats the call.
  // Thread: any but the executors', one call at a time. Blocking: until that certificate is issued.
  virtual Status set_trust_domains(const TrustDomains& trust_domains) = 0;

  // Progress of the connected proxies towards `goal`. Takes time proportional to their number.
  // Failure: kInvalidArgument on a thread of the control plane's executor, for which it waits.
  // Thread: any but the executor's. Blocking: briefly.
  virtual Result<model::CertificateProgress> certificate_progress(
      const model::CertificateGoal& goal) const = 0;

  // Ends the streams of proxies whose proxy certificate is of another CA key. A proxy that has a
  // newer certificate reconnects with it. Thread: any. Blocking: no.
  virtual void recall_proxies(const std::string& issuer_key_id) = 0;

  // Tells that problems_of() the rotation's status have changed. Thread: any. Blocking: no.
  virtual void root_problems_changed() = 0;
};

}  // namespace osm::inline v1::root_rotation
