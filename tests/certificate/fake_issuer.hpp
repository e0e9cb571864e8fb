// An issuer that tests steer. It polices its caller: a name is never issued twice at the same
// moment. Its certificates are real, because the manager looks at them.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "certificate/local_issuer.hpp"
#include "certificate/x509.hpp"
#include "osm/certificate/issuer.hpp"
#include "osm/notifier.hpp"
#include "osm/testing/manual_clock.hpp"

namespace osm::certificate::testing {

// The part that tests control; outlives the issuer it belongs to.
struct FakeCa {
  explicit FakeCa(const Clock& c) : clock(c) {
    // Older than any calendar that a test sets back.
    const osm::testing::ManualClock earlier(clock.wall_now() - std::chrono::hours(24 * 30));
    const PrivateKey pem = make_root_pem(earlier).value();
    key = x509::parse_key(pem.pem()).value();
    root = x509::parse_certificate(pem.pem()).value();
    root_pem = x509::to_pem(*root).value();
  }
  // The result of trust_bundle_pem(): a remark and the root.
  std::string bundle_pem() const { return bundle + '\n' + root_pem; }

  const Clock& clock;
  openssl::Key key;
  openssl::X509Handle root;
  std::string root_pem;
  std::mutex mutex;
  std::optional<Error> failure;             // sign() returns it
  std::optional<std::string> other_answer;  // or this, instead of a certificate
  std::string id = "ca-1";
  std::string bundle = "roots-1";
  WallTime end = WallTime::max();       // caps every certificate
  std::function<void()> while_issuing;  // runs without the lock
  std::map<std::string, int> issued;    // by common name
  int total = 0;
  int attempts = 0;
  SigningRequest last;
  Notifier<> changed;  // what subscribe() offers

 private:
  friend class FakeIssuer;
  std::set<std::string> in_flight_;
};

class FakeIssuer final : public Issuer {
 public:
  explicit FakeIssuer(FakeCa& ca) : ca_(ca) {}

  Result<std::string> sign(const SigningRequest& request) override {
    const std::string& name = request.subject.common_name.str();
    std::function<void()> while_issuing;
    {
      const std::lock_guard lock(ca_.mutex);
      REQUIRE(ca_.in_flight_.insert(name).second);
      ++ca_.attempts;
      ca_.last = request;
      while_issuing = ca_.while_issuing;
    }
    struct Landed {  // also when while_issuing throws
      FakeCa& ca;
      const std::string& name;
      ~Landed() {
        const std::lock_guard lock(ca.mutex);
        ca.in_flight_.erase(name);
      }
    } landed{ca_, name};
    if (while_issuing) while_issuing();
    const std::lock_guard lock(ca_.mutex);
    if (ca_.failure) return *ca_.failure;
    ++ca_.issued[name];
    ++ca_.total;
    if (ca_.other_answer) return *ca_.other_answer;
    const openssl::CleanErrorQueue clean;
    const WallTime now = ca_.clock.wall_now();
    const WallTime end = ca_.end - now > request.validity ? now + request.validity : ca_.end;
    OSM_TRY(const openssl::Request parsed, x509::parse_request(request.request_pem));
    OSM_TRY(const openssl::X509Handle leaf,
            x509::make_leaf(request.subject, *X509_REQ_get0_pubkey(parsed.get()),
                            {now - kClockSkew, end}, *ca_.root, *ca_.key));
    return x509::to_pem(*leaf);
  }
  std::string trust_bundle_pem() const override {
    const std::lock_guard lock(ca_.mutex);
    return ca_.bundle_pem();
  }
  std::string id() const override {
    const std::lock_guard lock(ca_.mutex);
    return ca_.id;
  }
  WallTime not_after() const override { return ca_.end; }
  Subscription subscribe(std::function<void()> on_change) override {
    return ca_.changed.subscribe(std::move(on_change));
  }

 private:
  FakeCa& ca_;
};

inline Subject workload(const std::string& name) {
  return {.common_name = CommonName(name + ".default.cluster.local"),
          .spiffe_id = SpiffeId("spiffe://cluster.local/ns/default/sa/" + name),
          .usage = Usage::kWorkload};
}

}  // namespace osm::certificate::testing
