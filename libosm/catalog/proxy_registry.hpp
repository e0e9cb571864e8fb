// Proxies that are connected to this replica, and the certificates that were issued to them.
#pragma once

#include <cstddef>
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

// Key of the proxy's workload.
model::ProxyKey workload_key(const Proxy& proxy);

// All calls: Thread: any. Blocking: no.
class ConnectedProxies {
 public:
  // Records an issued certificate as unclaimed until connected(). It replaces an older one of the
  // same UUID. Now and then it forgets those that have ended unused: the workload of a certificate
  // may be gone before the CA has answered.
  void expect(const certificate::ProxyCertificate& certificate, WallTime now);

  // Records a new stream. Its certificate becomes claimed. It is remembered even if this replica
  // did not issue it: the handshake has just proven that the proxy holds it.
  void connected(const Proxy& proxy);

  // Records the end of a stream: the oldest registered one, since a newer stream supersedes it. The
  // proxy stays connected while another stream is left. Result: the workload's key, if none is
  // left.
  std::optional<model::ProxyKey> disconnected(const ProxyId& id);

  // Forgets the certificates of a removed workload, unless a stream is left: no proxy is served
  // with them again.
  void forget(const model::ProxyKey& proxy);

  // Number of proxies that it knows of, also by a certificate that has ended.
  std::size_t size() const;

  // All certificates, ordered by namespace, then UUID; without expired ones that are not in use.
  std::vector<certificate::ProxyCertificate> certificates(WallTime now) const;

  // Proxies with an issued certificate that are connected, ordered; input of list_participants().
  std::vector<Proxy> connected_proxies() const;

 private:
  struct Entry {
    std::optional<certificate::ProxyCertificate> certificate;
    std::vector<Proxy> streams;  // in the order of their registration
  };

  mutable std::mutex mutex_;
  std::map<ProxyId, Entry> proxies_;
  std::size_t sweep_at_ = 64;  // number of entries
};

}  // namespace osm::inline v1::catalog
