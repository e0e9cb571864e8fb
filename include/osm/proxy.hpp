// A connected proxy, as the control plane knows it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate.hpp"
#include "osm/clock.hpp"
#include "osm/ids.hpp"
#include "osm/workload.hpp"

namespace osm {

// The five xDS types, in the order unasked pushes are sent.
enum class XdsType { kSecret, kCluster, kEndpoint, kListener, kRoute };
inline constexpr std::array kXdsTypes{XdsType::kSecret, XdsType::kCluster, XdsType::kEndpoint,
                                      XdsType::kListener, XdsType::kRoute};
// "SDS", "CDS", "EDS", "LDS", "RDS".
std::string_view xds_type_text(XdsType type);
// "type.googleapis.com/envoy.config.cluster.v3.Cluster"
std::string_view xds_type_url(XdsType type);
std::optional<XdsType> xds_type_of(std::string_view type_url);

enum class SyncState {
  kNotSubscribed,  // the proxy asks for nothing of this type, or for nothing there is
  kSynced,         // applied what it was last sent
  kPending,        // was sent something it has not answered yet
  kStale,          // refused the newest; keeps an older one
};
// "NOT SENT", "SYNCED", "PENDING", "STALE".
std::string_view sync_state_text(SyncState state);

struct ProxyTypeState {
  SyncState state = SyncState::kNotSubscribed;
  std::string last_sent_version;
  std::string last_applied_version;
  std::string last_nonce;
  std::string nack_detail;            // Envoy's words; empty: none outstanding
  std::optional<SteadyTime> sent_at;  // while pending: since when
};

struct Proxy {
  ProxyId id;
  CommonName common_name;
  ServiceIdentity identity;
  WorkloadName workload;
  std::vector<ServiceName> services;
  std::string peer_address;
  WallTime connected_at;
  WallTime certificate_not_after;
  std::array<ProxyTypeState, 5> types;  // by XdsType
};

}  // namespace osm
