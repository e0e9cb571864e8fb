// Root rotation: another root CA takes over from the present one while the mesh runs
// (docs/adr/0024). The MeshRootCertificates say which CAs sign and are trusted. RootRotation gets
// there in steps; it takes a step only when every replica and every proxy has acknowledged the one
// before.
//
// A host constructs in this order and destroys in the reverse order:
//
//   auto roots = RootRotation::start({.runtime = ..., .spec = *spec, .record = *record, ...});
//   auto manager = certificate::make_manager({.issuer = (*roots)->issuer(), ...});
//   auto mesh = ControlPlane::start({..., .certificates = *manager, .root_rotation =
//   roots->get()});
//   (*roots)->follow({.manager = *manager});
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rules.hpp"
#include "osm/detail/api.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/runtime/text_record.hpp"
#include "osm/values/mesh_root_certificate.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1 {

namespace root_rotation {
class Target;  // internal to the library
}

// Name of the CA that signs while no MeshRootCertificate does. No object can have this name.
inline constexpr const char* kOwnRoot = "(own)";

// The CA that the record trusts as `root`, for certificate::CaOptions. Result: without a bundle if
// the record does not trust that root, so that the CA may be created.
// Failure: as TextRecord::load(); kInvalidSyntax (the record). Thread: any. Blocking: until the
// record is read.
OSM_API Result<certificate::KnownCa> known_ca(TextRecord& record, const std::string& root);

// Lifetime: everything borrowed outlives the rotation.
struct RootRotationOptions {
  // The rotation runs on `blocking`: it waits for CAs, the record and the board there.
  Runtime runtime;
  MeshSpec& spec;
  TextRecord& record;             // the state of the rotation, the same for all replicas
  ReplicaBoard* board = nullptr;  // the replica that leads takes the steps; null: the only replica
  // Signs while no MeshRootCertificate does. The first root rotation replaces it.
  std::shared_ptr<certificate::Issuer> own;
  RootRules rules{};  // every object is checked by them before `open` gets it
  // Opens the CA of an object. If it is the mesh's own, known_ca() says if it may be created.
  // Failure: shown as RootStatus::waiting_for; it is called again after 15 s. Thread: of `blocking`
  // or of start(), one at a time. Blocking: it may.
  std::function<Result<std::shared_ptr<certificate::Issuer>>(const AllowedRoot&)> open;
  // The trust domain of `own`, and so the mesh's first. MeshRootCertificates name the others
  // (docs/adr/0027).
  TrustDomain trust_domain;
  // While a root drains, proxies with a proxy certificate of another root are made to connect again
  // this often, since only that shows a newer one: first when RotationParticipants::kept_lag has
  // been 0 for so long. A short interval ends the rotation sooner. A long one makes proxies that
  // have no newer certificate yet reconnect less often.
  std::chrono::seconds proxy_recall_interval{30};
  // A step waits no longer than this for a few proxies that do not acknowledge it or are not
  // connected: ten, or one in a hundred of the workloads. For more, or while a replica has just
  // started, it waits until the longest workload certificate has ended. A proxy that the rotation
  // went on without may need new bootstrap files.
  std::chrono::seconds max_wait = std::chrono::hours(1);
};

// The parts of this process that take part in the rotation, beside its control plane.
struct RotationParticipants {
  certificate::Manager& manager;  // over issuer(); outlives the rotation or its stop()
  // Number of certificates outside of processes, such as those in bootstrap Secrets, that are not
  // yet of the manager's CA and trust bundle; nullopt: not known yet. Called on the replica that
  // leads. Null: there are none.
  std::function<std::optional<std::size_t>()> kept_lag{};
  // Receives trust_domains() at first and after each change, again until it succeeds. The control
  // plane is told in any case. Null: nobody else. Thread: of `blocking`. Blocking: it may.
  std::function<Status(const TrustDomains&)> on_trust_domains{};
};

// The state of one root, for people.
struct RootStatus {
  std::string name;   // name of the MeshRootCertificate, or kOwnRoot
  std::string state;  // "signing", "trusted", "validating", "draining", "closing", "inactive"
  std::string role;   // in the object: "active", "passive", "inactive"; "" if there is no object
  WallTime since;
  std::string waiting_for;  // empty: it waits for nothing
  // Proxies that the rotation to this root went on without; empty: none.
  std::string left_behind{};
  TrustDomain trust_domain{};
  // While the root is trusted: SHA-256 of its certificate, hex, and the end of the first
  // certificate of its CA to end. Otherwise empty.
  std::string fingerprint{};
  std::optional<WallTime> not_after{};
  // The latest end among the certificates that it signed, in full hours; absent: none is known.
  std::optional<WallTime> latest_not_after{};
};

// Roots that are wanted and end within 30 days (kRootEnding) or have ended (kCertificateExpired).
OSM_API std::vector<Problem> problems_of(const std::vector<RootStatus>& roots, WallTime now);

// The proxies that lose their connections when the trust in a root ends at once.
struct DistrustEffect {
  bool signs = false;               // it signs now, so that the newest other active root must
  std::size_t proxies = 0;          // connected to this replica, with certificates of this root
  std::size_t bundles = 0;          // connected to this replica, without the newest trust bundle
  std::vector<std::string> some{};  // names of a few of them
};

class OSM_API RootRotation {
 public:
  // Calls stop(). Thread, blocking: as stop().
  virtual ~RootRotation() = default;

  // Reads the record. If the CA of an object signs, waits until the spec has synced.
  // Failure, each with the remedy: kUnavailable, kStorage, kInvalidSyntax (the record), kNotFound
  // (the object whose CA signs is gone), kInvalidArgument (`own` is recorded with another trust
  // domain). Thread: not an event loop's. Blocking: up to a minute.
  static Result<std::unique_ptr<RootRotation>> start(const RootRotationOptions& options);

  // The issuer for the certificate manager: the root that signs, and the bundle of all trusted
  // roots. Lifetime: may outlive the rotation. Thread: any. Blocking: no.
  virtual std::shared_ptr<certificate::Issuer> issuer() = 0;

  // ControlPlane::start() calls it for ControlPlaneOptions::root_rotation; a host does not.
  // Failure: kInvalidArgument: another control plane is attached, or follow() was called before.
  // Thread: any. Blocking: no.
  virtual Status attach(root_rotation::Target& control_plane) = 0;

  // Starts to report on this replica, to stand on the board and, where it leads, to take steps.
  // Call it once, after ControlPlane::start(). Thread: any. Blocking: no.
  virtual void follow(const RotationParticipants& participants) = 0;

  // Ends the rotation: no more steps and calls, and then its handle of stand(). Idempotent;
  // ControlPlane::shutdown() calls it. Thread: not of `blocking`. Blocking: until a running call of
  // a CA or of the record returns.
  virtual void stop() = 0;

  // The trust domains in effect, as this replica knows the record. Thread: any. Blocking: no.
  virtual TrustDomains trust_domains() const = 0;

  // Ends the trust in a root at once, for example because its key was stolen, and whoever still
  // needs it. No role in its object brings it back. Connections that are open go on.
  // Result: what that cuts; with `now` false, nothing changes. The step itself follows: status()
  // shows it, or says in `waiting_for` why it is not taken.
  // Failure: kNotFound: there is no such root; kInvalidArgument: it signs, and no other root could.
  // Thread: any. Blocking: no.
  virtual Result<DistrustEffect> distrust(const std::string& root, bool now) = 0;

  // Each root's state by name, as this replica knows the record. Thread: any. Blocking: no.
  virtual std::vector<RootStatus> status() const = 0;
};

}  // namespace osm::inline v1
