// Options that are wrong are refused before anything is sent.
#pragma once

#include "osm/result.hpp"
#include "osm/vault.hpp"

namespace osm::inline v1::vault {

// Failure: kInvalidArgument, naming the option.
Status check(const IssuerOptions& options);

}  // namespace osm::inline v1::vault
