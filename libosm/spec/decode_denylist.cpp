// Denylist, workload.openservicemesh.io/v1alpha1. A bad element is reported and takes no other
// away: a typing error must not readmit a stolen identity.
#include <algorithm>

#include "osm/values/denylist.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxReasonBytes = 256;

// The valid elements of a list, ordered, each once. `read` reads one; nullopt: it refused it.
// Result: nullopt if there is no list to read.
template <class T, class Read>
std::optional<std::vector<T>> elements_of(const Field& field, Read read) {
  std::vector<T> out;
  if (!field.present()) return out;
  const std::vector<Field> list = field.list();
  const auto* items = field.value()->if_array();
  if (items == nullptr || list.size() != items->size()) return std::nullopt;
  for (const Field& element : list)
    if (auto value = read(element)) out.push_back(*std::move(value));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::optional<ServiceIdentity> denied_account_of(const Field& element) {
  if (!element.required_map({"namespace", "name"})) return std::nullopt;
  ServiceIdentity account{required_label(element["namespace"]),
                          required_subdomain(element["name"])};
  if (!is_dns_label(account.ns) || !is_dns_subdomain(account.name)) return std::nullopt;
  return account;
}

std::optional<ProxyId> denied_proxy_of(const Field& element) {
  const std::string uuid = element.required_text();
  if (is_uuid(uuid)) return ProxyId(uuid);
  if (!uuid.empty())
    element.refuse("must be a proxy's UUID in lower case, as `osm proxy list` prints it");
  return std::nullopt;
}

}  // namespace

DecodedPolicy decode_denylist(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const Field spec = reader.root()["spec"];
  DecodedPolicy decoded;
  if (spec.required().value() != nullptr && spec.value()->is_object()) {
    // Report unknown members, and use the others.
    static_cast<void>(spec.required_map({"serviceAccounts", "proxyUUIDs", "reason"}));
    Denylist list;
    list.reason = spec["reason"].text().value_or("");
    if (list.reason.size() > kMaxReasonBytes) {
      spec["reason"].refuse("must have at most 256 bytes", ErrorCode::kTooLarge);
      list.reason.clear();
    }
    auto accounts = elements_of<ServiceIdentity>(spec["serviceAccounts"], denied_account_of);
    auto proxies = elements_of<ProxyId>(spec["proxyUUIDs"], denied_proxy_of);
    if (accounts && proxies) {
      list.accounts = *std::move(accounts);
      list.proxies = *std::move(proxies);
      decoded.value = std::make_shared<const Policy>(object.key, PolicyReach{}, std::move(list));
    }
  } else if (spec.present()) {
    spec.refuse("must be a map with serviceAccounts, proxyUUIDs, or both");
  }
  decoded.problems = std::move(reader.findings()).take(object.key);
  return decoded;
}

}  // namespace osm::inline v1::spec
