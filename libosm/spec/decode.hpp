// Objects as they were written into the values the mesh works with. Pure; every problem of an
// object is collected. Problems carry object and field, not yet path and line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/mesh_config.hpp"
#include "osm/values/mesh_root_certificate.hpp"
#include "osm/values/service.hpp"
#include "osm/values/smi.hpp"

namespace osm::inline v1::spec {

template <class T>
struct Decoded {
  std::optional<T> value;  // absent: the object is invalid and left out
  std::vector<Problem> problems;
};

// A policy that is checked and not obeyed yet (kUnobeyedKinds): nothing of it is kept but what no
// second object of its kind and namespace may say as well.
struct CheckedPolicy {
  struct Claim {
    std::string field;  // "spec.host"
    std::string what;   // "host api.shop.svc"

    friend bool operator==(const Claim&, const Claim&) = default;
  };
  std::vector<Claim> claims;

  friend bool operator==(const CheckedPolicy&, const CheckedPolicy&) = default;
};

Decoded<Service> decode_service(const Object& object);
Decoded<ServiceAccount> decode_service_account(const Object& object);
Decoded<smi::HttpRouteGroup> decode_http_route_group(const Object& object);
Decoded<smi::TcpRoute> decode_tcp_route(const Object& object);
Decoded<smi::TrafficTarget> decode_traffic_target(const Object& object);
Decoded<smi::TrafficSplit> decode_traffic_split(const Object& object);
Decoded<MeshConfig> decode_mesh_config(const Object& object);
Decoded<MeshRootCertificate> decode_root_certificate(const Object& object);
// Of any of kUnobeyedKinds; among the problems of a valid one is that it is not obeyed.
Decoded<CheckedPolicy> decode_policy(const Object& object);

// What is said of `object` when `other` has the same claim.
Problem duplicate_claim(const ObjectKey& object, const CheckedPolicy::Claim& claim,
                        const ObjectKey& other);

// Why `regex` cannot be used, or nullopt. RE2, as Envoy matches.
// `cost`: what the compiled expression costs is added to it, unless it does not compile.
std::optional<std::string> why_bad_regex(const std::string& regex, int* cost = nullptr);

}  // namespace osm::inline v1::spec
