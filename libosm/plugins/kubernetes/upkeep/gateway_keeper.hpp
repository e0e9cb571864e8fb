// Keeps the client certificate of an ingress gateway in the Secret that MeshConfig names
// (spec.certificate.ingressGateway). The Lease holder writes it, writes it again whenever the
// certificate or its roots are renewed, and deletes it with the section.
//
// Labels mark our Secrets; no other Secret is ever changed, whatever MeshConfig names. Only
// metadata is read, so keys never come from the API server: a new Lease holder writes its own
// certificate, and a Secret with another version than the written one is written again.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/upkeep/mesh_secrets.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

class GatewayKeeper {
 public:
  // `may_write` is true on the writing replica; `on_problems` is called when problems() changed,
  // and must not block. Precondition: options.gateway.
  GatewayKeeper(const UpkeepOptions& options, std::function<bool()> may_write,
                std::function<void()> on_problems);
  // Blocking: as stop().
  ~GatewayKeeper();

  // Ends writing and notifying. Blocking: until a running call of the API or of the CA has
  // returned.
  void stop() { strand_.stop(); }

  // Called when the MeshConfig or a gateway's certificate may have changed. Thread: any. Blocking:
  // no.
  void wake() { round_.wake(); }
  // Called when this replica may write from now on. Thread: any. Blocking: no.
  void on_acquired();
  // Reasons why the Secret is not as configured. Thread: any. Blocking: no.
  std::vector<Problem> problems() const;

 private:
  // A Secret as it was written.
  struct Written {
    ObjectKey key;
    Metadata secret;
    certificate::CertificatePtr certificate;
    std::string trust_bundle_pem;
  };

  Pause keep();
  bool in_doubt() const;
  Result<certificate::CertificatePtr> certificate_for(const IngressGatewayCertificate& wanted);
  Status put(const ObjectKey& key, const IngressGatewayCertificate& wanted);
  Result<Metadata> create(boost::json::object secret);
  Status remove_others();
  boost::json::object labels() const;
  bool is_ours(const boost::json::object& secret) const;
  void release();
  void forget();
  void report(const Status& status);

  Api& api_;
  const Runtime runtime_;
  const GatewayUpkeep gateway_;
  const std::string mesh_name_;
  const ObjectKey mesh_config_;  // the object of the problems
  const std::function<bool()> may_write_;
  const std::function<void()> on_problems_;

  mutable std::mutex mutex_;  // guards `problem_`
  std::optional<Problem> problem_;

  // On the strand.
  std::optional<certificate::Subject> subject_;  // subject of the manager's certificate for us
  std::chrono::seconds validity_{};              // its requested validity
  std::optional<Written> written_;
  std::optional<ObjectKey> secret_;  // the configured Secret
  bool swept_ = false;               // there is no other Secret of ours
  std::atomic<bool> begun_{false};   // this replica began to lead since the last turn
  Strand strand_;
  Round round_;
  std::set<std::string> namespaces_;  // in which a Secret of ours was, since this process started
  MeshSecrets secrets_;
  Subscription config_;
  Subscription renewals_;
  Subscription ca_;
};

}  // namespace osm::inline v1::kubernetes
