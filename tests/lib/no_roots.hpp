// A root rotation without any root, for tests of its users.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "osm/certificate/root_rotation.hpp"

namespace osm::inline v1::testing {

struct NoRoots : RootRotation {
  std::shared_ptr<certificate::Issuer> issuer() override { return nullptr; }
  Status attach(root_rotation::Target& control_plane) override {
    target = &control_plane;
    return {};
  }
  void follow(const RotationParticipants&) override {}
  void stop() override {}
  TrustDomains trust_domains() const override { return TrustDomain("cluster.local"); }
  Result<DistrustEffect> distrust(const std::string&, bool) override { return DistrustEffect{}; }
  std::vector<RootStatus> status() const override { return {}; }

  root_rotation::Target* target = nullptr;  // the control plane that was attached
};

}  // namespace osm::inline v1::testing
