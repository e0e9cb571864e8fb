#include "catalog/proxy_registry.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace osm::inline v1::catalog {

model::ProxyKey workload_key(const Proxy& proxy) {
  return {proxy.identity.ns, proxy.id, proxy.kind};
}

void ConnectedProxies::expect(const certificate::ProxyCertificate& certificate, WallTime now) {
  std::lock_guard lock(mutex_);
  if (proxies_.size() >= sweep_at_) {
    std::erase_if(proxies_, [now](const auto& known) {
      const Entry& entry = known.second;
      return entry.streams.empty() && entry.certificate->not_after <= now;
    });
    sweep_at_ = 2 * proxies_.size() + 64;
  }
  Entry& entry = proxies_[certificate.proxy_id];
  // A renewed certificate of the same name stays claimed while the proxy is connected.
  const bool claimed = !entry.streams.empty() && entry.certificate &&
                       entry.certificate->common_name == certificate.common_name &&
                       entry.certificate->claimed;
  entry.certificate = certificate;
  entry.certificate->claimed = claimed;
}

void ConnectedProxies::connected(const Proxy& proxy) {
  std::lock_guard lock(mutex_);
  Entry& entry = proxies_[proxy.id];
  entry.streams.push_back(proxy);
  if (!entry.certificate || entry.certificate->common_name != proxy.common_name) {
    entry.certificate = {.common_name = proxy.common_name,
                         .proxy_id = proxy.id,
                         .ns = proxy.identity.ns,
                         .not_after = proxy.certificate_not_after,
                         .claimed = true};
  }
  entry.certificate->claimed = true;
}

std::optional<model::ProxyKey> ConnectedProxies::disconnected(const ProxyId& id) {
  std::lock_guard lock(mutex_);
  const auto at = proxies_.find(id);
  if (at == proxies_.end() || at->second.streams.empty()) return std::nullopt;
  const Proxy ended = std::move(at->second.streams.front());
  at->second.streams.erase(at->second.streams.begin());
  if (!at->second.streams.empty()) return std::nullopt;
  return workload_key(ended);
}

void ConnectedProxies::forget(const model::ProxyKey& proxy) {
  std::lock_guard lock(mutex_);
  const auto at = proxies_.find(proxy.id);
  if (at == proxies_.end() || !at->second.streams.empty()) return;
  if (at->second.certificate->ns == proxy.ns) proxies_.erase(at);
}

std::size_t ConnectedProxies::size() const {
  std::lock_guard lock(mutex_);
  return proxies_.size();
}

std::vector<certificate::ProxyCertificate> ConnectedProxies::certificates(WallTime now) const {
  std::vector<certificate::ProxyCertificate> out;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : proxies_)
      if (!entry.streams.empty() || entry.certificate->not_after > now)
        out.push_back(*entry.certificate);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tie(a.ns, a.proxy_id) < std::tie(b.ns, b.proxy_id);
  });
  return out;
}

std::vector<Proxy> ConnectedProxies::connected_proxies() const {
  std::lock_guard lock(mutex_);
  std::vector<Proxy> out;
  for (const auto& [id, entry] : proxies_)
    if (!entry.streams.empty()) out.push_back(entry.streams.back());
  return out;
}

}  // namespace osm::inline v1::catalog
