#include "etcd/object_keys.hpp"

#include <algorithm>
#include <array>

#include "osm/ids.hpp"

namespace osm::inline v1::etcd {
namespace {

constexpr std::string_view kNone = "-";  // no DNS name

bool is_kind(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

bool is_object(const ObjectKey& object) {
  return (object.group.empty() || is_dns_subdomain(object.group)) && is_kind(object.kind) &&
         (object.ns.empty() || is_dns_label(object.ns)) && is_dns_subdomain(object.name);
}

}  // namespace

std::string ObjectKeys::end() const { return end_of(begin_); }

std::optional<std::string> ObjectKeys::key_of(const ObjectKey& object) const {
  if (!is_object(object)) return std::nullopt;
  std::string key = begin_;
  key.append(object.group.empty() ? kNone : object.group).append("/");
  key.append(object.kind).append("/");
  key.append(object.ns.empty() ? kNone : object.ns).append("/");
  return key.append(object.name);
}

std::optional<ObjectKey> ObjectKeys::object_of(std::string_view key) const {
  if (!key.starts_with(begin_)) return std::nullopt;
  key.remove_prefix(begin_.size());
  std::array<std::string, 4> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto slash = key.find('/');
    if ((slash == std::string_view::npos) != (i + 1 == parts.size())) return std::nullopt;
    parts[i] = key.substr(0, slash);
    key.remove_prefix(slash == std::string_view::npos ? key.size() : slash + 1);
  }
  for (const std::size_t optional : {0, 2}) {
    if (parts[optional].empty()) return std::nullopt;
    if (parts[optional] == kNone) parts[optional].clear();
  }
  ObjectKey object;
  object.group = parts[0];
  object.kind = parts[1];
  object.ns = parts[2];
  object.name = parts[3];
  if (!is_object(object)) return std::nullopt;
  return object;
}

}  // namespace osm::inline v1::etcd
