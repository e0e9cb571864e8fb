// The CAs that the mesh's MeshRootCertificates name, as far as they answered. Thread: one at a
// time.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "osm/certificate/root_rotation.hpp"
#include "root_rotation/next_step.hpp"

namespace osm::inline v1::root_rotation {

// Blocking: until the mesh's objects have been read. Result: false after `bound`.
bool wait_until_synced(MeshSpec& spec, std::chrono::seconds bound);

class Candidates {
 public:
  // Lifetime: `options` outlives it.
  explicit Candidates(const RootRotationOptions& options) : options_(options) {}

  // Opens the CAs of new and changed objects that are wanted or in use, and again those that failed
  // before. `signing`: the trust domain of objects that name none. Blocking: until the CAs answer.
  void ask(const std::vector<RootRecord>& records, const TrustDomain& signing);

  // The wishes of all objects, and that of the host's own CA: to sign while no object does.
  std::vector<RootWish> wishes() const;

  // Null: no object of this name has a CA that answered.
  std::shared_ptr<certificate::Issuer> issuer_of(const std::string& name) const;
  // Failure: kNotFound, with what to do.
  Result<std::shared_ptr<certificate::Issuer>> signer(const std::string& name) const;
  // "active", ...; "" if there is no object.
  std::string role_of(const std::string& name) const;

 private:
  struct Candidate {
    MeshRootCertificate described;
    std::shared_ptr<certificate::Issuer> issuer;
    TrustDomain domain;  // of the names that it signs
    std::string fault;
    SteadyTime asked_at{};
  };

  void open(Candidate& candidate, const MeshRootCertificate& root);
  Result<std::shared_ptr<certificate::Issuer>> open_allowed(const MeshRootCertificate& root) const;

  const RootRotationOptions& options_;
  std::map<std::string, Candidate> candidates_;
};

}  // namespace osm::inline v1::root_rotation
