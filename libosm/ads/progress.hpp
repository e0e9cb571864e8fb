// Progress of proxies: the newest generation that each has acknowledged completely.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/certificate_progress.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/subscription.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

// A proxy that is connected, or about to reconnect.
struct ProxyProgress {
  model::ProxyKey proxy;
  // It acknowledged everything that this generation, and any before it, has for it. 0: nothing on
  // this stream yet.
  std::uint64_t generation = 0;
  bool refused = false;  // it refused the newest configuration and keeps an older one
  std::string detail;    // the proxy's message
};

// A proxy of this replica, for the reports to other replicas.
struct ReportedProxy {
  ProxyProgress progress;
  std::optional<Proxy> proxy;  // absent: it was just told to reconnect
};

class ProgressHost {
 public:
  virtual ~ProgressHost() = default;

  // Progress of those of `proxies` that are connected or were just told to reconnect, in the same
  // order.
  // Thread: any but the executor's. Blocking: briefly.
  virtual std::vector<ProxyProgress> progress(
      const std::vector<model::ProxyKey>& proxies) const = 0;

  // All proxies that are connected or were just told to reconnect, ordered by key. Thread: any but
  // the executor's. Blocking: briefly.
  virtual std::vector<ReportedProxy> report() const = 0;

  // Progress of the connected proxies towards `goal`. Thread: any but the executor's.
  // Blocking: briefly.
  virtual model::CertificateProgress certificate_progress(
      const model::CertificateGoal& goal) const = 0;

  // Ends the streams of proxies whose proxy certificate is of another CA key. Thread: any.
  // Blocking: no.
  virtual void recall(const std::string& issuer_key_id) = 0;

  // Calls `on_progress` when a proxy may have connected, progressed, refused or disconnected; null:
  // any proxy may have.
  // Thread: of the executor, one call at a time; must not block. Lifetime: until the handle dies.
  virtual Subscription subscribe_progress(
      std::function<void(const model::ProxyKey*)> on_progress) = 0;
};

}  // namespace osm::inline v1::ads
