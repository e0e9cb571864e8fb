// Authorization at a server, and its form as Envoy RBAC.
#pragma once

#include <string>
#include <vector>

#include "envoy/config/rbac/v3/rbac.pb.h"
#include "translate/class_view.hpp"
#include "translate/matchers.hpp"
#include "translate/peer_names.hpp"

namespace osm::inline v1::translate {

// Permissions from one TrafficTarget.
struct Grant {
  std::string target;                    // "ns/name": the policy's key
  std::vector<ServiceIdentity> sources;  // never empty
  std::vector<PathMatch> routes;         // HTTP only; a request must match one of them
};

struct Authorization {
  PeerNames names{};                      // of the identities
  bool permissive = false;                // any workload of the mesh may do anything, except:
  std::vector<ServiceIdentity> denied{};  // ordered; only if permissive
  std::vector<Grant>
      grants{};  // if not permissive: ordered by target; empty: nobody may do anything
};

// Paths that a path rule can match.
enum class MatchedPaths {
  kNormalForm,  // those in normal form (HttpPaths), and the very text of a literal rule
  kAny,
};

// Authorization at a port of the class's workload: of targets that have TCPRoutes, only those whose
// TCPRoutes name the port, or no port. HTTP: also the targets without a TCPRoute.
Authorization http_authorization(const ClassView& view, Port target_port);
Authorization tcp_authorization(const ClassView& view, Port target_port);

// The denied accounts that were allowed to call the class's workload: all of the mesh in permissive
// mode, else the sources of its targets. Ordered.
std::vector<ServiceIdentity> denied_callers(const ClassView& view);
// RBAC of action DENY for them.
envoy::config::rbac::v3::RBAC rbac_denials(const PeerNames& names,
                                           const std::vector<ServiceIdentity>& denied);

// RBAC of action ALLOW with one policy per grant. A request passes if any policy matches. Rules
// without policies deny everything.
envoy::config::rbac::v3::RBAC rbac_rules(const Authorization& authorization,
                                         MatchedPaths paths = MatchedPaths::kNormalForm);

}  // namespace osm::inline v1::translate
