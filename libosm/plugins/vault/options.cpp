#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/read_file.hpp"
#include "vault/api.hpp"

namespace osm::inline v1::vault {
namespace {

constexpr std::size_t kMaxFile = 256 * 1024;

// True for path segments of Vault's API that need no escapes.
bool is_path(std::string_view text) {
  return !text.empty() && text.front() != '/' && text.back() != '/' &&
         text.find("//") == std::string_view::npos && text.find("..") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.' || c == '/';
         });
}

Error wrong(std::string_view option, std::string_view cause) {
  return {ErrorCode::kInvalidArgument, "Vault: " + std::string(option) + ": " + std::string(cause)};
}

Status check_path(std::string_view option, std::string_view text) {
  if (is_path(text)) return {};
  return wrong(option, "must be a path of letters, digits, '-', '_' and '.'");
}

}  // namespace

Status check(const IssuerOptions& options) {
  const net::Address& address = options.address;
  if (!address.is_unix() && (address.host.empty() || address.port == 0))
    return wrong("address", "name the host and the port of the server");
  if (!options.tls && !address.is_this_machine())
    return wrong("address", address.str() +
                                " is another machine, and plain HTTP would show the token to "
                                "everybody in between; use https");
  OSM_TRY(check_path("mount", options.mount));
  OSM_TRY(check_path("role", options.role));
  std::string_view ns = options.vault_namespace;
  if (ns.ends_with('/')) ns.remove_suffix(1);  // as Vault itself writes them
  if (!options.vault_namespace.empty()) OSM_TRY(check_path("namespace", ns));
  if (static_cast<bool>(options.token) == options.kubernetes.has_value())
    return wrong("login", "give a token, or a role of Kubernetes auth, and not both");
  if (options.kubernetes) {
    if (!options.kubernetes->jwt) return wrong("login", "name the ServiceAccount's token");
    if (options.kubernetes->role.empty()) return wrong("auth role", "is missing");
    return check_path("auth mount", options.kubernetes->mount);
  }
  return {};
}

Source from_file(std::string path) {
  return [path = std::move(path)] { return read_file(path, kMaxFile); };
}

}  // namespace osm::inline v1::vault
