// Renews the proxy certificates in bootstrap Secrets while their Pods live: certificates of another
// CA than the manager's, with another trust bundle, or past most of their life.
//
// Annotations describe a Secret's certificate (osm/inject/injector.hpp), so no key is read. The
// renewer writes the certificate's files and these annotations, if the Secret has not changed since
// it was checked. Envoy loads them from its volume, without a restart.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/rate_limit.hpp"
#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/source/pod.hpp"
#include "kubernetes/upkeep/mesh_secrets.hpp"
#include "osm/inject/injector.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

class BootstrapRenewer {
 public:
  // Works on `strand`, which is stopped before this is destroyed. `secrets`: the metadata of the
  // mesh's Secrets. `sweep` calls look_at_all(), as soon as it can. Precondition:
  // options.secrets->certificates; the store holds Namespaces too.
  BootstrapRenewer(const UpkeepOptions& options, std::function<bool()> may_write,
                   const MeshSecrets& secrets, std::function<void()> sweep, Strand& strand);

  // Number of Secrets to renew; nullopt: not known (Upkeep::stale_secrets). Thread: any.
  // Blocking: no.
  std::optional<std::size_t> stale() const;

  // On the strand: true if the CA or the trust bundle is another than at the last look_at_all().
  bool outdated() const { return source_ != source_now(); }
  // On the strand: checks all Secrets, also those that could not be renewed.
  void look_at_all();
  // On the strand: Secrets or Pods changed.
  void look_at_new();
  // Called when this replica does not write any more.
  void forget();

 private:
  struct Looked {
    std::string source;
    std::size_t stale = 0;
  };

  // The Pod for which the Secret is to be renewed; nullopt: it need not be.
  std::optional<Pod> due_for(const Object& secret) const;
  std::optional<Pod> owner_of(const Object& secret) const;
  Pause renew_next();
  void settle(const ObjectKey& secret, const Status& done);
  Status renew(const ObjectKey& key);
  Status write(const Object& secret, inject::PodCertificate certificate);
  void publish();
  std::string source_now() const;

  Api& api_;
  const Runtime runtime_;
  const ObjectStore& store_;
  const ProxyCertificateUpkeep certificates_;
  const std::string mesh_name_;
  const std::function<bool()> may_write_;
  const MeshSecrets& secrets_;
  const std::function<void()> sweep_;
  Round look_;
  Round renewals_;

  mutable std::mutex mutex_;  // guards `looked_`
  std::optional<Looked> looked_;

  // On the strand.
  std::string source_;          // source of the wanted certificates; empty: nothing was checked
  std::set<ObjectKey> due_;     // to be renewed
  ObjectKey last_;              // the last one that was tried
  std::set<ObjectKey> failed_;  // failed: the next check of all tries again
  std::size_t renewed_ = 0;     // number since the last time that nothing was due
  bool failing_ = false;
  RateLimit rate_;
  Subscription changes_;
};

}  // namespace osm::inline v1::kubernetes
