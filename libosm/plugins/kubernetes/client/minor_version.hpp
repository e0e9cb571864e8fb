// Versions of Kubernetes, as servers and kubelets write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/numbers.hpp"

namespace osm::inline v1::kubernetes {

// 31 of "v1.31.1" and "v1.31.1-vendor.7"; nullopt: it is no such version.
inline std::optional<int> minor_of(const std::string& version) {
  constexpr std::string_view kMajor = "v1.";
  const auto end = version.find('.', kMajor.size());
  if (!version.starts_with(kMajor) || end == std::string::npos) return std::nullopt;
  const auto minor = number_of<int>(version.substr(kMajor.size(), end - kMajor.size()));
  return minor && *minor >= 0 ? minor : std::nullopt;
}

}  // namespace osm::inline v1::kubernetes
