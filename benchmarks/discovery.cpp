#include "discovery.hpp"

#include <algorithm>
#include <set>

#include <google/protobuf/any.pb.h>
#include <google/protobuf/io/coded_stream.h>

#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/config/route/v3/route.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "envoy/service/discovery/v3/discovery.pb.h"

namespace osm::bench {
namespace {

namespace tls = envoy::extensions::transport_sockets::tls::v3;
using HttpConnectionManager =
    envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

// Calls `field(number, bytes)` for every length-delimited field. False: malformed.
template <class F>
bool for_each_field(std::string_view bytes, F field) {
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  while (const std::uint32_t tag = in.ReadTag()) {
    switch (tag & 7) {
      case 0: {
        std::uint64_t ignored;
        if (!in.ReadVarint64(&ignored)) return false;
        break;
      }
      case 1:
        if (!in.Skip(8)) return false;
        break;
      case 2: {
        std::uint32_t size;
        if (!in.ReadVarint32(&size)) return false;
        const auto at = static_cast<std::size_t>(in.CurrentPosition());
        if (!in.Skip(static_cast<int>(size))) return false;
        field(tag >> 3, bytes.substr(at, size));
        break;
      }
      case 5:
        if (!in.Skip(4)) return false;
        break;
      default:
        return false;
    }
  }
  return in.ConsumedEntireMessage() || in.CurrentPosition() == static_cast<int>(bytes.size());
}

std::uint64_t hash_of(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

std::vector<std::string> ordered(const std::set<std::string>& names) {
  return {names.begin(), names.end()};
}

struct Names {
  std::set<std::string> load_assignments, secrets, routes;
};

void add_secrets(const tls::CommonTlsContext& context, Names& names) {
  for (const auto& secret : context.tls_certificate_sds_secret_configs())
    names.secrets.insert(secret.name());
  if (context.has_validation_context_sds_secret_config())
    names.secrets.insert(context.validation_context_sds_secret_config().name());
  if (context.combined_validation_context().has_validation_context_sds_secret_config())
    names.secrets.insert(
        context.combined_validation_context().validation_context_sds_secret_config().name());
}

std::string read_cluster(const google::protobuf::Any& any, Names& names) {
  envoy::config::cluster::v3::Cluster cluster;
  any.UnpackTo(&cluster);
  if (cluster.type() == envoy::config::cluster::v3::Cluster::EDS) {
    const std::string& service = cluster.eds_cluster_config().service_name();
    names.load_assignments.insert(service.empty() ? cluster.name() : service);
  }
  tls::UpstreamTlsContext context;
  if (cluster.transport_socket().typed_config().UnpackTo(&context))
    add_secrets(context.common_tls_context(), names);
  return cluster.name();
}

std::string read_listener(const google::protobuf::Any& any, Names& names) {
  envoy::config::listener::v3::Listener listener;
  any.UnpackTo(&listener);
  for (const auto& chain : listener.filter_chains()) {
    tls::DownstreamTlsContext context;
    if (chain.transport_socket().typed_config().UnpackTo(&context))
      add_secrets(context.common_tls_context(), names);
    for (const auto& filter : chain.filters()) {
      HttpConnectionManager manager;
      if (filter.typed_config().UnpackTo(&manager) && manager.has_rds())
        names.routes.insert(manager.rds().route_config_name());
    }
  }
  return listener.name();
}

template <class Message, const std::string& (Message::*kName)() const>
std::string read_name(const google::protobuf::Any& any) {
  Message message;
  any.UnpackTo(&message);
  return (message.*kName)();
}

std::string read_resource(XdsType type, const google::protobuf::Any& any, Names& names) {
  using envoy::config::endpoint::v3::ClusterLoadAssignment;
  using envoy::config::route::v3::RouteConfiguration;
  switch (type) {
    case XdsType::kCluster:
      return read_cluster(any, names);
    case XdsType::kListener:
      return read_listener(any, names);
    case XdsType::kEndpoint:
      return read_name<ClusterLoadAssignment, &ClusterLoadAssignment::cluster_name>(any);
    case XdsType::kRoute:
      return read_name<RouteConfiguration, &RouteConfiguration::name>(any);
    case XdsType::kSecret:
      return read_name<tls::Secret, &tls::Secret::name>(any);
  }
  return {};
}

Contents read_all(XdsType type, const std::vector<std::string_view>& resources) {
  Contents contents;
  Names names;
  for (std::string_view bytes : resources) {
    google::protobuf::Any any;
    any.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    contents.resources.push_back({read_resource(type, any, names), hash_of(bytes)});
  }
  std::sort(contents.resources.begin(), contents.resources.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  contents.load_assignments = ordered(names.load_assignments);
  contents.secrets = ordered(names.secrets);
  contents.routes = ordered(names.routes);
  return contents;
}

}  // namespace

std::optional<Response> parse_response(std::string_view bytes) {
  Response response;
  std::optional<XdsType> type;
  const bool whole = for_each_field(bytes, [&](std::uint32_t number, std::string_view field) {
    switch (number) {
      case 1:
        response.version = field;
        break;
      case 2:
        response.resources.push_back(field);
        response.content_hash = response.content_hash * 0x9e3779b97f4a7c15ULL + hash_of(field);
        break;
      case 4:
        type = xds_type_of(field);
        break;
      case 5:
        response.nonce = field;
        break;
      default:
        break;
    }
  });
  if (!whole || !type) return std::nullopt;
  response.type = *type;
  response.content_hash ^= static_cast<std::uint64_t>(*type);
  return response;
}

std::string serialize_request(const Request& request) {
  envoy::service::discovery::v3::DiscoveryRequest message;
  if (!request.node_id.empty()) message.mutable_node()->set_id(std::string(request.node_id));
  message.set_type_url(std::string(xds_type_url(request.type)));
  message.set_version_info(std::string(request.version));
  message.set_response_nonce(std::string(request.nonce));
  if (request.names)
    for (const std::string& name : *request.names) message.add_resource_names(name);
  return message.SerializeAsString();
}

std::optional<RequestHead> parse_request(std::string_view bytes) {
  std::optional<XdsType> type;
  bool initial = true;
  const bool whole = for_each_field(bytes, [&](std::uint32_t number, std::string_view field) {
    if (number == 4) type = xds_type_of(field);
    if (number == 5 && !field.empty()) initial = false;
  });
  if (!whole || !type) return std::nullopt;
  return RequestHead{*type, initial};
}

Contents read_contents(XdsType type, std::string_view any) { return read_all(type, {any}); }

std::shared_ptr<const Contents> ContentsIndex::contents_of(const Response& response) {
  auto& known = known_[response.content_hash];
  if (!known) known = std::make_shared<const Contents>(read_all(response.type, response.resources));
  return known;
}

}  // namespace osm::bench
