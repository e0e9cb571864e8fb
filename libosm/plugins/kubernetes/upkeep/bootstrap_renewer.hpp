// Renews the proxy certificates in bootstrap Secrets while their Pods live: those that are of
// another CA than the manager has, came with another trust bundle, or are past most of their life.
//
// What a Secret holds is told by its annotations (osm/inject/injector.hpp), so no key is read.
// Written are the certificate's files and these annotations, of a Secret that is still what was
// looked at. Envoy takes them up from its volume, without a restart.
#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/source/pod.hpp"
#include "kubernetes/upkeep/rate.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/inject/injector.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/runtime.hpp"

namespace osm::inline v1::kubernetes {

struct BootstrapRenewerOptions {
  const ObjectStore& store;  // of Namespaces, and of Pods with a proxy UUID
  certificate::Manager& certificates;
  std::function<TrustDomains()> trust_domains;  // of now
  std::string mesh_name;
  std::function<bool()> may_write;  // this replica is the one that does
  // The metadata of a bootstrap Secret, by namespace and name.
  std::function<std::optional<boost::json::object>(const std::string&, const std::string&)> find;
  std::function<void()> sweep;  // calls look_at_all(), as soon as it can
};

class BootstrapRenewer {
 public:
  // Works on `strand`, which is stopped before this is destroyed.
  BootstrapRenewer(Api& api, const Runtime& runtime, BootstrapRenewerOptions options,
                   Strand& strand);
  BootstrapRenewer(const BootstrapRenewer&) = delete;
  BootstrapRenewer& operator=(const BootstrapRenewer&) = delete;

  // How many are to be renewed; nullopt: not known (Upkeep::stale_secrets). Thread: any.
  // Blocking: no.
  std::optional<std::size_t> stale() const;

  // On the strand: true if the CA or the trust bundle is another than at the last look_at_all().
  bool outdated() const { return source_ != source_now(); }
  // On the strand: with the metadata of all bootstrap Secrets of the mesh.
  void look_at_all(const std::vector<boost::json::object>& secrets);
  // This Secret is new or changed, and has an owner.
  void look_at(const boost::json::object& secret);
  // This replica does not write.
  void forget();

 private:
  // The namespace and the name of a Secret.
  using Name = std::pair<std::string, std::string>;
  struct Looked {
    std::string source;
    std::size_t stale = 0;
  };

  void wake();
  // The Pod for which the Secret is to be renewed; nullopt: it need not be.
  std::optional<Pod> due_for(const boost::json::object& secret) const;
  std::optional<Pod> owner_of(const boost::json::object& secret) const;
  bool in_mesh(const std::string& ns) const;
  void schedule(std::chrono::nanoseconds delay);
  void renew_next();
  void settle(const Name& name, const Status& done);
  Status renew(const Name& name);
  Status write(const boost::json::object& secret, inject::PodCertificate certificate);
  void publish();
  std::string source_now() const;

  Api& api_;
  const Runtime runtime_;
  const BootstrapRenewerOptions options_;
  Strand& strand_;
  std::atomic<bool> awake_{false};  // a check is to come

  mutable std::mutex mutex_;  // over `looked_`
  std::optional<Looked> looked_;

  // On the strand.
  std::string source_;       // of the certificates that are wanted; empty: nothing was looked at
  std::set<Name> due_;       // to be renewed
  Name last_;                // that was tried
  std::set<Name> failed_;    // could not be: the next look at all tries again
  std::size_t renewed_ = 0;  // since the last time that nothing was due
  bool failing_ = false;
  RateLimit rate_;
  Subscription timer_;
  Subscription changes_;
};

}  // namespace osm::inline v1::kubernetes
