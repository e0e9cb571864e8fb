#include "osm/values/proxy.hpp"

#include <array>

namespace osm::inline v1 {
namespace {

struct TypeNames {
  XdsType type;
  std::string_view text;
  std::string_view url;
};

constexpr TypeNames kTypes[] = {
    {XdsType::kSecret, "SDS",
     "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"},
    {XdsType::kCluster, "CDS", "type.googleapis.com/envoy.config.cluster.v3.Cluster"},
    {XdsType::kEndpoint, "EDS",
     "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"},
    {XdsType::kListener, "LDS", "type.googleapis.com/envoy.config.listener.v3.Listener"},
    {XdsType::kRoute, "RDS", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"},
};

}  // namespace

std::string_view xds_type_text(XdsType type) { return kTypes[static_cast<int>(type)].text; }
std::string_view xds_type_url(XdsType type) { return kTypes[static_cast<int>(type)].url; }

std::optional<XdsType> xds_type_of(std::string_view type_url) {
  for (const TypeNames& names : kTypes)
    if (names.url == type_url) return names.type;
  return std::nullopt;
}

std::string_view xds_variant_text(XdsVariant variant) {
  return variant == XdsVariant::kDelta ? "delta" : "sotw";
}

std::optional<XdsVariant> xds_variant_of(std::string_view text) {
  for (XdsVariant variant : {XdsVariant::kSotw, XdsVariant::kDelta})
    if (xds_variant_text(variant) == text) return variant;
  return std::nullopt;
}

std::string_view sync_state_text(SyncState state) {
  constexpr std::array kTexts{"NOT SENT", "SYNCED", "PENDING", "STALE"};
  return kTexts.at(static_cast<std::size_t>(state));
}

}  // namespace osm::inline v1
