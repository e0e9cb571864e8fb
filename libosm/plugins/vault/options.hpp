// Validates options before anything is sent.
#pragma once

#include "osm/certificate/vault.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::vault {

// Failure: kInvalidArgument, naming the option.
Status check(const IssuerOptions& options);

}  // namespace osm::inline v1::vault
