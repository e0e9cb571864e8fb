// Error texts of this room for invalid input.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "osm/result.hpp"

namespace osm::inline v1::inject {

inline Error invalid(std::string_view field, std::string_view cause) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", field, cause)};
}

}  // namespace osm::inline v1::inject
