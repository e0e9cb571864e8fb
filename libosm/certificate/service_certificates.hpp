// The certificates that workloads prove their service account with, for ads: a SecretSource over
// the Manager that never makes its caller wait.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "model/secret_source.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/executor.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::certificate {

struct ServiceCertificatesOptions {
  Manager& manager;
  Executor& executor;  // issuing blocks its threads, one at a time
  const Clock& clock;
  TrustDomain trust_domain;  // to begin with
  // Read within a minute of a change; it holds from each certificate's next renewal. Any thread.
  std::function<std::chrono::seconds()> validity;
  LogSink& log;
  MetricsSink& metrics;
};

class ServiceCertificates : public model::SecretSource {
 public:
  // Every identity gets a certificate under its name of this domain; until it is there the one
  // before is kept, and renewed. Thread: any. Blocking: no.
  virtual void set_trust_domain(const TrustDomain& domain) = 0;
};

// Lifetime: what `options` borrows outlives the source. Its destructor waits for an issuance or a
// subscriber's callback that is running, so it must not be called from inside one.
std::unique_ptr<ServiceCertificates> make_service_certificates(
    const ServiceCertificatesOptions& options);

}  // namespace osm::inline v1::certificate
