#include "osm/values/denylist.hpp"

#include "base/maps.hpp"

namespace osm::inline v1 {

std::string Denial::text() const {
  return object.str() + " denies it" + (reason.empty() ? "" : " (" + reason + ')');
}

const Denial* Denials::find(const ProxyId& proxy, const ServiceIdentity& account) const {
  const Denial* denial = find_in(proxies, proxy);
  return denial != nullptr ? denial : find_in(accounts, account);
}

Denials denials_of(const std::vector<std::shared_ptr<const Policy>>& policies) {
  Denials out;
  for (const auto& policy : policies) {
    const auto* list = policy->get<Denylist>();
    if (list == nullptr) continue;
    const Denial denial{policy->key, list->reason};
    for (const ServiceIdentity& account : list->accounts) out.accounts.emplace(account, denial);
    for (const ProxyId& proxy : list->proxies) out.proxies.emplace(proxy, denial);
  }
  return out;
}

}  // namespace osm::inline v1
