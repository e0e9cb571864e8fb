// A connected proxy, as the control plane sees it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1 {

// The five xDS types, in the order of unrequested pushes.
enum class XdsType { kSecret, kCluster, kEndpoint, kListener, kRoute };
inline constexpr std::array kXdsTypes{XdsType::kSecret, XdsType::kCluster, XdsType::kEndpoint,
                                      XdsType::kListener, XdsType::kRoute};
// "SDS", "CDS", "EDS", "LDS", "RDS".
OSM_API std::string_view xds_type_text(XdsType type);
// "type.googleapis.com/envoy.config.cluster.v3.Cluster"
OSM_API std::string_view xds_type_url(XdsType type);
// The type with that URL; nullopt: none of the five.
OSM_API std::optional<XdsType> xds_type_of(std::string_view type_url);

// The two variants of xDS. State of the world (StreamAggregatedResources): a response of clusters
// or listeners carries all of them. Delta (DeltaAggregatedResources): every response carries the
// changes.
enum class XdsVariant { kSotw, kDelta };
// "sotw", "delta".
OSM_API std::string_view xds_variant_text(XdsVariant variant);
// The variant of that name; nullopt: neither.
OSM_API std::optional<XdsVariant> xds_variant_of(std::string_view text);

// State of one xDS type on one proxy.
enum class SyncState {
  kNotSubscribed,  // the proxy subscribes to nothing of this type, or to nothing that exists
  kSynced,         // the proxy applied the last response
  kPending,        // the proxy has not answered the last response yet
  kStale,          // the proxy refused the newest response and keeps an older one
};
// "NOT SENT", "SYNCED", "PENDING", "STALE".
OSM_API std::string_view sync_state_text(SyncState state);

// One xDS type on one proxy's stream. Versions are hashes of content; nonces are valid for this
// stream only.
struct ProxyTypeState {
  SyncState state = SyncState::kNotSubscribed;
  std::string last_sent_version;
  std::string last_applied_version;
  std::string last_nonce;
  std::string nack_detail;            // Envoy's message; empty: none outstanding
  std::optional<SteadyTime> sent_at;  // time of the pending response
};

// Of a proxy at another replica, `peer_address`, `connected_at` and the versions and nonces of
// `types` are not known.
struct Proxy {
  ProxyId id;
  CommonName common_name;
  ServiceIdentity identity;
  WorkloadName workload;
  WorkloadKind kind = WorkloadKind::kMachine;  // kind of the workload
  std::vector<ServiceName> services;
  std::string peer_address;
  WallTime connected_at;
  WallTime certificate_not_after;
  // From then on its streams are refused, and the certificate may only renew itself.
  WallTime certificate_served_until;
  XdsVariant xds = XdsVariant::kSotw;   // variant of its stream
  std::array<ProxyTypeState, 5> types;  // indexed by XdsType
  std::string replica{};                // the replica that serves it; empty: there is only this one
};

}  // namespace osm::inline v1
