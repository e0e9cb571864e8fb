// Small meshes built by hand, and what translation makes of them, unpacked.
#pragma once

#include <doctest/doctest.h>
#include <google/protobuf/any.pb.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/config/route/v3/route.pb.h"
#include "translate/translate.hpp"

namespace osm::translate_test {

using envoy::config::cluster::v3::Cluster;
using envoy::config::endpoint::v3::ClusterLoadAssignment;
using envoy::config::listener::v3::Listener;
using envoy::config::route::v3::RouteConfiguration;

inline MeshService port(ServiceName service, std::uint16_t dialled, std::uint16_t target,
                        Protocol protocol = Protocol::kHttp, std::string name = "") {
  return {std::move(service), std::move(name), Port{dialled}, Port{target}, protocol};
}

inline Endpoint endpoint_at(std::string address, std::uint16_t target, ServiceIdentity identity,
                            std::string service_port = "") {
  Endpoint out;
  out.address = std::move(address);
  out.port = Port{target};
  out.service_port = std::move(service_port);
  out.identity = std::move(identity);
  return out;
}

// A mesh one puts together entry by entry; in SMI mode until said otherwise.
struct Mesh {
  model::MeshSnapshot snapshot;

  Mesh() {
    domains({"cluster.local"});
    snapshot.permissive_upstreams = std::make_shared<const std::vector<model::Upstream>>();
    snapshot.problems = std::make_shared<const std::vector<Problem>>();
  }

  // In order.
  Mesh& domains(const std::vector<std::string>& names) {
    snapshot.accepted_domains.clear();
    for (const std::string& name : names) snapshot.accepted_domains.emplace_back(name);
    snapshot.allowed_domains = snapshot.accepted_domains;
    return *this;
  }

  Mesh& permissive() {
    snapshot.config.proxy.permissive = true;
    std::vector<model::Upstream> all;
    for (const auto& entry : snapshot.services) all.push_back({entry->name, true, true, {}});
    snapshot.permissive_upstreams =
        std::make_shared<const std::vector<model::Upstream>>(std::move(all));
    return *this;
  }

  Mesh& put(model::ServiceEntry entry) {
    snapshot.services =
        snapshot.services.with(std::make_shared<const model::ServiceEntry>(std::move(entry)));
    return *this;
  }

  Mesh& put(model::ServiceEndpoints endpoints) {
    snapshot.endpoints = snapshot.endpoints.with(
        std::make_shared<const model::ServiceEndpoints>(std::move(endpoints)));
    return *this;
  }

  Mesh& put(ServiceIdentity identity, std::vector<model::Upstream> upstreams,
            std::vector<InboundTrafficPolicy> inbound = {}) {
    model::IdentityPolicy policy{
        std::move(identity),
        std::make_shared<const std::vector<model::Upstream>>(std::move(upstreams)),
        std::move(inbound)};
    snapshot.policies =
        snapshot.policies.with(std::make_shared<const model::IdentityPolicy>(std::move(policy)));
    return *this;
  }

  std::vector<translate::InputPtr> inputs(const translate::ProxyClass& of, XdsType type) const {
    return translate::inputs_for(snapshot, of, type);
  }

  std::vector<std::string> names(const translate::ProxyClass& of, XdsType type) const {
    std::vector<std::string> out;
    for (const auto& input : inputs(of, type)) out.push_back(input->name());
    return out;
  }

  std::optional<translate::EncodedResource> encoded(const translate::ProxyClass& of, XdsType type,
                                                    const std::string& name) const {
    for (const auto& input : inputs(of, type))
      if (input->name() == name) return input->encode();
    return std::nullopt;
  }

  template <class Message>
  Message get(const translate::ProxyClass& of, XdsType type, const std::string& name) const {
    const auto resource = encoded(of, type, name);
    REQUIRE_MESSAGE(resource, name << " is not there");
    google::protobuf::Any any;
    Message message;
    REQUIRE(any.ParseFromString(resource->any));
    REQUIRE(any.UnpackTo(&message));
    return message;
  }
  Cluster cluster(const translate::ProxyClass& of, const std::string& name) const {
    return get<Cluster>(of, XdsType::kCluster, name);
  }
  ClusterLoadAssignment assignment(const translate::ProxyClass& of, const std::string& name) const {
    return get<ClusterLoadAssignment>(of, XdsType::kEndpoint, name);
  }
  Listener listener(const translate::ProxyClass& of, const std::string& name) const {
    return get<Listener>(of, XdsType::kListener, name);
  }
  RouteConfiguration routes(const translate::ProxyClass& of, const std::string& name) const {
    return get<RouteConfiguration>(of, XdsType::kRoute, name);
  }
};

template <class Message>
Message unpack(const google::protobuf::Any& any) {
  Message message;
  REQUIRE(any.UnpackTo(&message));
  return message;
}

inline const ServiceIdentity kClient{"client", "client"};
inline const ServiceIdentity kServer{"server", "server"};
inline const ServiceName kServerService{"server", "server"};

inline translate::ProxyClass client_class() { return {kClient, {}}; }
inline translate::ProxyClass server_class(Protocol protocol = Protocol::kHttp) {
  return {kServer, {{port(kServerService, 80, 14001, protocol)}}};
}

inline model::ServiceEntry server_entry(Protocol protocol = Protocol::kHttp) {
  model::ServiceEntry entry;
  entry.name = kServerService;
  entry.cluster_ip = "10.96.10.7";
  entry.ports = {port(kServerService, 80, 14001, protocol)};
  entry.identities = {kServer};
  return entry;
}

inline model::Upstream upstream(ServiceName service, std::vector<ServiceIdentity> allowed) {
  return {std::move(service), true, false, std::move(allowed)};
}

inline InboundTrafficPolicy http_target(std::string name, std::vector<ServiceIdentity> sources,
                                        std::vector<RoutePolicy> routes) {
  return {{"server", std::move(name)}, std::move(sources), std::move(routes), false, {}};
}

// `target` with a TCPRoute of these ports.
inline InboundTrafficPolicy on_ports(std::vector<Port> ports, InboundTrafficPolicy target) {
  target.tcp = true;
  target.tcp_ports = std::move(ports);
  return target;
}

inline InboundTrafficPolicy tcp_target(std::string name, std::vector<ServiceIdentity> sources,
                                       std::vector<Port> ports = {}) {
  return {{"server", std::move(name)}, std::move(sources), {}, true, std::move(ports)};
}

// The worked example of the reference: one client, one server, GET /status/.* allowed.
inline Mesh worked_example(Protocol protocol = Protocol::kHttp) {
  Mesh mesh;
  mesh.put(server_entry(protocol));
  mesh.put(model::ServiceEndpoints{kServerService, {endpoint_at("10.1.0.9", 14001, kServer)}});
  mesh.put(kClient, {upstream(kServerService, {kServer})});
  InboundTrafficPolicy target = tcp_target("tt", {kClient});
  if (is_http(protocol)) target = http_target("tt", {kClient}, {{"ok", "/status/.*", {"GET"}, {}}});
  mesh.put(kServer, {}, {target});
  return mesh;
}

}  // namespace osm::translate_test
