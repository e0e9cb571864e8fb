// The proxies this replica is connected with and the certificates they were given.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "model/mesh_snapshot.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::catalog {

// All calls: Thread: any. Blocking: no.
class ConnectedProxies {
 public:
  // A certificate was issued; unclaimed until register_proxy. Issued again under the same UUID it
  // takes the older one's place.
  void expect(const certificate::ProxyCertificate& certificate);

  // A stream began. Its certificate becomes claimed, and is remembered even when this replica did
  // not issue it: the proxy has just proven that it has it.
  void connected(const Proxy& proxy);

  // A stream ended: the oldest that is registered, since a newer stream supersedes it. The proxy
  // stays connected while another is left. Result: of which workload it was, if none is left.
  std::optional<model::ProxyKey> disconnected(const ProxyId& id);

  // Its workload is gone, and so will be its last stream: whatever the certificate says, nobody is
  // served by it again. While a stream is left, nothing happens.
  void forget(const model::ProxyKey& proxy);

  // Ordered by namespace, then UUID. Without those that have expired and are not in use.
  std::vector<certificate::ProxyCertificate> certificates(WallTime now) const;

  // What list_participants starts from: issued and connected, ordered.
  std::vector<Proxy> connected_proxies() const;

 private:
  struct Entry {
    std::optional<certificate::ProxyCertificate> certificate;
    std::map<WallTime, Proxy> streams;  // by the time they connected
  };

  mutable std::mutex mutex_;
  std::map<ProxyId, Entry> proxies_;
};

}  // namespace osm::inline v1::catalog
