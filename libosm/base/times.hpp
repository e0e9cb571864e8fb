// Times as text, and times of certificates.
#pragma once

#include <openssl/asn1.h>

#include <optional>
#include <string>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// "2026-01-02T03:04:05Z" (RFC 3339, UTC), with 0, 3 or 6 decimals of the second. Cut, not rounded,
// so that the order of texts is that of times.
OSM_API std::string rfc3339(WallTime time, int decimals = 0);

// Nullopt if `time` is null or malformed. Years that do not fit into WallTime (0 and 9999 are used
// for "never") become the nearest time that fits.
OSM_API std::optional<WallTime> time_of(const ASN1_TIME* time);

}  // namespace osm::inline v1
