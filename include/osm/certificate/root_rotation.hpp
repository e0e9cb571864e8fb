// The mesh's roots, and how one follows another while everything runs (docs/adr/0024): keeps which
// CA signs and which are trusted as the MeshRootCertificates wish, one step at a time, each only
// when every replica and every proxy has acknowledged the one before.
//
//   auto roots = RootRotation::start({.spec = *spec, .record = *record, .board = *board, ...});
//   auto manager = certificate::make_manager({.issuer = (*roots)->issuer(), ...});
//   auto control_plane = ControlPlane::start({.certificates = *manager, ...});
//   (*roots)->follow({.manager = *manager, .control_plane = control_plane->get(), ...});
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/certificate/issuer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/control_plane.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/log.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/metrics.hpp"
#include "osm/result.hpp"
#include "osm/runtime/replica_board.hpp"
#include "osm/values/mesh_root_certificate.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1 {

// Where all replicas find how far the rotation is: one text without secrets.
class OSM_API RotationRecord {
 public:
  virtual ~RotationRecord() = default;

  // What is recorded.
  struct Text {
    std::string text;     // empty: nothing is recorded yet
    std::string version;  // what store() is to replace
  };

  // Failure: kUnavailable, kStorage. Thread: any but an event loop's. Blocking: until it is read.
  virtual Result<Text> load() = 0;

  // All or nothing, also for a process that is killed meanwhile. Failure: kConflict: it is not the
  // version that was read any more; as above. Thread, blocking: as above.
  virtual Status store(const Text& next) = 0;
};

// The record in a file, for one controller. Failure: none until it is read.
OSM_API std::unique_ptr<RotationRecord> make_file_record(std::string path);

// The name of the CA that signs while no MeshRootCertificate does. No object can have it.
inline constexpr const char* kOwnRoot = "(own)";

// What a rotation works with.
struct RootRotationOptions {
  MeshSpec& spec;  // these outlive the rotation
  RotationRecord& record;
  ReplicaBoard& board;
  // Signs while no MeshRootCertificate does, and is the first that is taken over from.
  std::shared_ptr<certificate::Issuer> own;
  // The CA that an object describes, created if it is our own and there is none. May block.
  std::function<Result<std::shared_ptr<certificate::Issuer>>(const MeshRootCertificate&)>
      make_issuer;
  // Of `own`, and so the mesh's first. The others are those of the MeshRootCertificates
  // (docs/adr/0027).
  TrustDomain trust_domain;
  Executor& blocking;
  const Clock& clock;
  LogSink& log;
  MetricsSink& metrics;
};

// What takes part in it.
struct RotationParticipants {
  certificate::Manager& manager;          // over issuer(); both outlive the rotation, or its stop()
  ControlPlane* control_plane = nullptr;  // null: this process serves no proxies
  std::function<bool()> leads;            // whether this replica takes the steps
  // How many certificates that stand outside of processes, such as those in bootstrap Secrets, are
  // not yet of the CA and the trust bundle of the manager; nullopt: that is not known yet. Asked of
  // the replica that leads. Null: there are none.
  std::function<std::optional<std::size_t>()> kept_lag{};
  // Called with trust_domains() first and whenever they are others, until it succeeds. The control
  // plane is told anyway. On a thread of `blocking`; may block. Null: nobody else has to know.
  std::function<Status(const TrustDomains&)> on_trust_domains{};
};

// How far one root is.
struct RootStatus {
  std::string name;   // of the MeshRootCertificate; kOwnRoot
  std::string state;  // "signing", "trusted", "validating", "draining", "closing", "inactive"
  std::string role;   // its author's wish: "active", "passive", "inactive"; "" when it is gone
  WallTime since;
  std::string waiting_for;  // empty: nothing
  TrustDomain trust_domain{};
};

class OSM_API RootRotation {
 public:
  // Ends it. Blocking: until a call of a CA or of the record has returned. Thread: not of
  // `blocking`.
  virtual ~RootRotation() = default;

  // Reads the record and, if it says that an object's CA signs, waits for the spec to be synced.
  // Failure: kUnavailable, kStorage, kInvalidSyntax (the record), kNotFound (the object whose CA
  // signs is gone), kInvalidArgument (another trust domain than `own` is recorded with), each with
  // the remedy. Thread: not an event loop's. Blocking: up to a minute.
  static Result<std::unique_ptr<RootRotation>> start(const RootRotationOptions& options);

  // What the manager is made with: signs with the root that signs, trusts all that are trusted.
  // Once. Outlives this. Thread: any. Blocking: no.
  virtual std::unique_ptr<certificate::Issuer> issuer() = 0;

  // Begins to publish what this replica sees and, where it leads, to take steps.
  // Thread: any. Blocking: no.
  virtual void follow(const RotationParticipants& participants) = 0;

  // Takes no more steps and asks nobody any more. Thread, blocking: as the destructor.
  virtual void stop() = 0;

  // Of what is issued and accepted now, as far as this replica acts on the record: what
  // ControlPlaneOptions::trust_domain begins with. Thread: any. Blocking: no.
  virtual TrustDomains trust_domains() const = 0;

  // By name, as this replica knows it. Thread: any. Blocking: no.
  virtual std::vector<RootStatus> status() const = 0;
};

}  // namespace osm::inline v1
