#include "vault/options.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace osm::inline v1::vault {
namespace {

constexpr std::size_t kMaxFile = 256 * 1024;

bool is_this_machine(const net::Address& address) {
  if (address.is_unix() || address.host == "localhost" || address.host == "::1") return true;
  in_addr v4{};
  return ::inet_pton(AF_INET, address.host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

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
  if (!options.tls && !is_this_machine(address))
    return wrong("address", address.str() +
                                " is another machine, and plain HTTP would show the token to "
                                "everybody in between; use https");
  if (Status checked = check_path("mount", options.mount); !checked) return checked;
  if (Status checked = check_path("role", options.role); !checked) return checked;
  std::string_view ns = options.vault_namespace;
  if (ns.ends_with('/')) ns.remove_suffix(1);  // as Vault itself writes them
  if (!options.vault_namespace.empty())
    if (Status checked = check_path("namespace", ns); !checked) return checked;
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
  return [path = std::move(path)]() -> Result<std::string> {
    std::ifstream file(path, std::ios::binary);
    std::string content(kMaxFile, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (!file.eof() || file.bad())  // a directory can be opened, and fails here
      return Error{ErrorCode::kUnreadableSource,
                   path + ": cannot be read; check that it is there and readable by this process"};
    return content;
  };
}

}  // namespace osm::inline v1::vault
