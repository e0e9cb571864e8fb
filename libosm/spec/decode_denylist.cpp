// Denylist, workload.openservicemesh.io/v1alpha1. A bad element is reported and takes no other
// away: a typing error must not readmit a stolen identity.
#include <algorithm>

#include "osm/values/denylist.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxReasonBytes = 256;

// The valid elements of a list, ordered, each once. Result: nullopt if there is no list to read.
template <class Read>
auto elements_of(const Field& field, std::string_view what, Read read)
    -> std::optional<std::vector<std::invoke_result_t<Read, const Field&>>> {
  auto out = field.elements(what, read);
  const auto* items = field.present() ? field.value()->if_array() : nullptr;
  if (field.present() && (items == nullptr || items->size() > kMaxEntries)) return std::nullopt;
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

ServiceIdentity denied_account_of(const Field& element) {
  const auto [map, ns, name] = element.required_map("namespace", "name");
  if (!map) return {};
  return {required_label(ns), required_subdomain(name)};
}

ProxyId denied_proxy_of(const Field& element) {
  const std::string uuid = element.required_text();
  if (!uuid.empty() && !is_uuid(uuid))
    element.refuse("must be a proxy's UUID in lower case, as `osm proxy list` prints it");
  return ProxyId(uuid);
}

std::string reason_of(const Field& field) {
  std::string reason = field.text().value_or("");
  if (reason.size() > kMaxReasonBytes)
    field.refuse("must have at most 256 bytes", ErrorCode::kTooLarge);
  return reason;
}

}  // namespace

DecodedPolicy decode_denylist(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  const Field spec = reader.root()["spec"];
  DecodedPolicy decoded;
  if (spec.required().value() != nullptr && spec.value()->is_object()) {
    const auto [map, denied_accounts, denied_proxies, reason] = [&] {
      const Findings::Element field(reader.findings(), "field");
      return spec.required_map("serviceAccounts", "proxyUUIDs", "reason");
    }();
    Denylist list;
    list.reason = reason.element("field", reason_of).value_or("");
    auto accounts = elements_of(denied_accounts, "element", denied_account_of);
    auto proxies = elements_of(denied_proxies, "element", denied_proxy_of);
    if (accounts && proxies) {
      list.accounts = *std::move(accounts);
      list.proxies = *std::move(proxies);
      decoded.value = std::make_shared<const Policy>(object.key, std::move(list));
    }
  } else if (spec.present()) {
    spec.refuse("must be a map with serviceAccounts, proxyUUIDs, or both");
  }
  decoded.problems = std::move(reader.findings()).take(object.key);
  return decoded;
}

}  // namespace osm::inline v1::spec
