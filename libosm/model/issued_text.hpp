// An issued certificate as JSON, in the record of machines' certificates and in an annotation of
// pods' bootstrap Secrets. Header only, so that this room needs no library for JSON.
#pragma once

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "model/names.hpp"
#include "osm/certificate/issued_certificates.hpp"
#include "osm/clock.hpp"

namespace osm::inline v1::model {

inline std::int64_t whole_seconds(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

// The nearest time that fits.
template <class Map>
WallTime seconds_at(const Map& map, std::string_view name) {
  using std::chrono::seconds;
  constexpr auto kLatest = std::chrono::duration_cast<seconds>(WallTime::duration::max()).count();
  return WallTime(seconds(std::clamp(v1::number_at(map, name), -kLatest, kLatest)));
}

// All but `claimed`, with times in seconds since 1970.
inline boost::json::object encode_issued(const IssuedCertificate& one) {
  return {{"common_name", to_utf8(one.common_name.str())},
          {"spiffe_id", one.spiffe_id.str()},
          {"serial_number", one.serial_number},
          {"issuer", to_utf8(one.issuer)},
          {"not_before", whole_seconds(one.not_before)},
          {"not_after", whole_seconds(one.not_after)}};
}

// Nullopt without a proxy's SPIFFE id or a serial number.
template <class Map>
std::optional<IssuedCertificate> decode_issued(const Map& map) {
  const SpiffeId id(text_at(map, "spiffe_id"));
  const auto proxy = parse_proxy_spiffe_id(trust_domain_of(id), id.str());
  std::string serial_number = text_at(map, "serial_number");
  if (!proxy.ok() || serial_number.empty()) return std::nullopt;
  return IssuedCertificate{.common_name = CommonName(text_at(map, "common_name")),
                           .spiffe_id = id,
                           .proxy_id = proxy->id,
                           .kind = proxy->kind,
                           .serial_number = std::move(serial_number),
                           .issuer = text_at(map, "issuer"),
                           .not_before = seconds_at(map, "not_before"),
                           .not_after = seconds_at(map, "not_after")};
}

}  // namespace osm::inline v1::model
