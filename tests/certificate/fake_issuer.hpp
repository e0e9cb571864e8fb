// An issuer without cryptography, for tests of time and concurrency. It polices its caller: a name
// is never issued twice at the same moment.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "certificate/issuer.hpp"

namespace osm::certificate::testing {

// What tests steer; outlives the issuer it belongs to.
struct FakeCa {
  explicit FakeCa(const Clock& c) : clock(c) {}

  const Clock& clock;
  std::mutex mutex;
  std::optional<Error> failure;         // issue() returns it
  std::string bundle = "roots-1";       // trust_bundle_pem()
  WallTime end = WallTime::max();       // caps every certificate
  std::function<void()> while_issuing;  // runs without the lock
  std::map<std::string, int> issued;    // by common name
  int total = 0;
  int attempts = 0;
  IssueRequest last;

 private:
  friend class FakeIssuer;
  std::set<std::string> in_flight_;
};

class FakeIssuer final : public Issuer {
 public:
  explicit FakeIssuer(FakeCa& ca) : ca_(ca) {}

  Result<IssuedCertificate> issue(const IssueRequest& request) override {
    const std::string& name = request.subject.common_name.str();
    std::function<void()> while_issuing;
    {
      const std::lock_guard lock(ca_.mutex);
      REQUIRE(ca_.in_flight_.insert(name).second);
      ++ca_.attempts;
      ca_.last = request;
      while_issuing = ca_.while_issuing;
    }
    if (while_issuing) while_issuing();
    const std::lock_guard lock(ca_.mutex);
    ca_.in_flight_.erase(name);
    if (ca_.failure) return *ca_.failure;
    const WallTime now = ca_.clock.wall_now();
    const std::string id = name + "#" + std::to_string(++ca_.issued[name]);
    ++ca_.total;
    return IssuedCertificate{
        .chain_pem = "chain of " + id,
        .private_key = PrivateKey("key of " + id),
        .serial_number = std::to_string(ca_.total),
        .fingerprint = "fingerprint of " + id,
        .not_before = now - std::chrono::minutes(10),
        .not_after = ca_.end - now > request.validity ? now + request.validity : ca_.end};
  }
  std::string trust_bundle_pem() const override {
    const std::lock_guard lock(ca_.mutex);
    return ca_.bundle;
  }
  WallTime not_after() const override { return ca_.end; }

 private:
  FakeCa& ca_;
};

inline Subject workload(const std::string& name) {
  return {.common_name = CommonName(name + ".default.cluster.local"),
          .spiffe_id = SpiffeId("spiffe://cluster.local/ns/default/sa/" + name),
          .usage = Usage::kWorkload};
}

}  // namespace osm::certificate::testing
