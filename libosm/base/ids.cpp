#include "osm/ids.hpp"

#include <algorithm>
#include <utility>

namespace osm::inline v1 {
namespace {

constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kMaxSubdomain = 253;
constexpr std::size_t kUuidLength = 36;

// Not <cctype>'s: those depend on the locale.
constexpr bool is_lower_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
constexpr bool is_lower_hex(char c) { return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9'); }

bool is_part(std::string_view text, std::size_t longest) {
  if (text.empty() || text.size() > longest) return false;
  if (!is_lower_alnum(text.front()) || !is_lower_alnum(text.back())) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_lower_alnum(c) || c == '-'; });
}

// True for parts of at most `longest` bytes that dots join.
bool has_parts(std::string_view text, std::size_t longest) {
  if (text.size() > kMaxSubdomain) return false;
  for (;;) {
    const auto dot = text.find('.');
    if (!is_part(text.substr(0, dot), longest)) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace

SpiffeId spiffe_id(const TrustDomain& domain, const ServiceIdentity& identity) {
  return SpiffeId(workload_spiffe_prefix(domain) + identity.ns + "/sa/" + identity.name);
}

std::string workload_spiffe_prefix(const TrustDomain& domain) {
  return "spiffe://" + domain.str() + "/ns/";
}

bool is_dns_label(std::string_view text) { return is_part(text, kMaxLabel); }

bool is_dns_subdomain(std::string_view text) { return has_parts(text, kMaxSubdomain); }

bool is_dns_name(std::string_view text) { return has_parts(text, kMaxLabel); }

std::string normal_dns_name(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  std::string name(text);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

std::optional<std::string> dns_name_of(std::string_view text) {
  std::string name = normal_dns_name(text);
  return is_dns_name(name) ? std::optional(std::move(name)) : std::nullopt;
}

bool is_uuid(std::string_view text) {
  if (text.size() != kUuidLength) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_lower_hex(text[i])) return false;
  }
  return true;
}

}  // namespace osm::inline v1
