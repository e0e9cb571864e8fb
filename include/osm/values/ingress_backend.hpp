// Calls from outside of the mesh that workloads admit: an IngressBackend,
// policy.openservicemesh.io/v1alpha1. docs/mesh-objects.md has the fields and the effects.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "osm/ids.hpp"

namespace osm::inline v1 {

// TLS towards a backend whose protocol is https.
struct IngressTls {
  bool client_certificate = true;      // false: tls.skipClientCertValidation
  std::vector<std::string> sni_hosts;  // lower case, "a.example" or "*.example"; empty: any

  friend bool operator==(const IngressTls&, const IngressTls&) = default;
};

// One of spec.backends: a port that workloads behind a Service of the object's namespace listen on.
struct IngressTarget {
  ServiceName service;
  Port target_port{};
  std::optional<IngressTls> tls;  // absent: http
  std::size_t place = 0;          // in spec.backends

  friend bool operator==(const IngressTarget&, const IngressTarget&) = default;
};

// One of spec.sources of kind Service.
struct IngressSourceService {
  ServiceName service;    // of any namespace, also outside of the mesh
  std::size_t place = 0;  // in spec.sources

  friend bool operator==(const IngressSourceService&, const IngressSourceService&) = default;
};

// One IngressBackend, without its invalid elements.
struct IngressBackend {
  std::vector<IngressTarget> backends;  // each port once
  std::vector<IngressSourceService> services;
  std::vector<std::string> networks;  // "10.0.0.0/8"
  // Names that a client certificate may have: a DNS name, or a URI that is no workload's.
  std::vector<std::string> principals;
  // True if a source limits the callers' addresses. It may be one that was left out: then the other
  // sources alone admit callers.
  bool limits_addresses = false;

  friend bool operator==(const IngressBackend&, const IngressBackend&) = default;
};

}  // namespace osm::inline v1
