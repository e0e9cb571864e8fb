// Keeps the client certificate of an ingress gateway in the Secret that MeshConfig names
// (spec.certificate.ingressGateway): written by whoever holds the Lease, again whenever the
// certificate or its roots are renewed, and gone when the section is.
//
// A Secret is ours by its labels; no other is changed, whatever MeshConfig names. Only metadata is
// read: no key leaves the API server. A new holder of the Lease writes a certificate of its own. A
// Secret whose version is not the one written here is written again.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/values/trust_domains.hpp"

namespace osm::inline v1::kubernetes {

struct GatewayKeeperOptions {
  certificate::Manager& manager;
  MeshSpec& spec;
  std::function<TrustDomains()> trust_domains;  // of now
  std::function<bool()> may_write;              // this replica is the one that does
  std::function<void()> on_problems;            // problems() has changed. Must not block
  std::string mesh_name = "osm";
  ObjectKey mesh_config;  // whose problems these are
};

class GatewayKeeper {
 public:
  GatewayKeeper(Api& api, const Runtime& runtime, GatewayKeeperOptions options);
  // Blocking: as stop().
  ~GatewayKeeper();
  GatewayKeeper(const GatewayKeeper&) = delete;
  GatewayKeeper& operator=(const GatewayKeeper&) = delete;

  // Writes and tells nothing more. Blocking: until a call of the API or of the CA that is under way
  // has returned.
  void stop();

  // MeshConfig, or a gateway's certificate, may have changed. Thread: any. Blocking: no.
  void wake();
  // This replica may write from now on. Thread: any. Blocking: no.
  void on_acquired();
  // Why the Secret is not as it should be. Thread: any. Blocking: no.
  std::vector<Problem> problems() const;

 private:
  // A Secret as we left it.
  struct Written {
    ObjectKey key;
    std::string uid;
    std::string version;
    certificate::CertificatePtr certificate;
    std::string trust_bundle_pem;
  };

  void round();
  bool in_doubt() const;
  Status keep(const IngressGatewayCertificate& wanted);
  Result<certificate::CertificatePtr> certificate_for(const IngressGatewayCertificate& wanted);
  Status put(const ObjectKey& key, const certificate::CertificatePtr& certificate);
  Result<boost::json::object> write(const ObjectKey& key, const boost::json::object* live,
                                    boost::json::object& secret);
  Status remove_others();
  boost::json::object labels() const;
  bool is_ours(const boost::json::object& secret) const;
  void release();
  void forget();
  void report(const Status& status);

  Api& api_;
  const Runtime runtime_;
  const GatewayKeeperOptions options_;

  std::atomic<bool> awake_{false};  // a round is to come
  mutable std::mutex mutex_;        // over `problem_`
  std::optional<Problem> problem_;

  // On the strand.
  std::optional<certificate::Subject> subject_;  // of the certificate that the manager has for us
  std::chrono::seconds validity_{};              // which was asked for it
  std::optional<Written> written_;
  std::optional<ObjectKey> secret_;  // the one that is wanted
  bool swept_ = false;               // there is no other of ours
  Strand strand_;
  Informer secrets_;
  Subscription timer_;
  Subscription config_;
  Subscription renewals_;
  Subscription ca_;
};

}  // namespace osm::inline v1::kubernetes
