// Maintains the bootstrap Secrets of the injector. Each gets its Pod as owner, so that Kubernetes
// deletes it with the Pod. A Secret whose Pod never appears is deleted. Certificates in Secrets are
// renewed (bootstrap_renewer.hpp).
//
// Labels and the name mark our Secrets; no other Secret is ever changed. Only metadata is read: the
// keys stay in the API server. Pods are watched, Secrets are not; all Secrets are listed every
// minute.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "kubernetes/upkeep/bootstrap_renewer.hpp"
#include "osm/kubernetes/upkeep.hpp"

namespace osm::inline v1::kubernetes {

class SecretKeeper {
 public:
  // `may_write` is true on the writing replica. Precondition: options.secrets, whose store holds
  // the Pods with a proxy UUID.
  SecretKeeper(const UpkeepOptions& options, std::function<bool()> may_write);
  // Blocking: until a running call of the API has returned.
  ~SecretKeeper() { strand_.stop(); }

  // Called when these objects changed. Thread: any. Blocking: no.
  void on_objects(const std::vector<ObjectKey>& keys);
  // Called when this replica may write from now on. Thread: any. Blocking: no.
  void on_acquired();
  // As BootstrapRenewer::stale().
  std::optional<std::size_t> stale() const;

 private:
  // A proxy's UUID and the namespace it counts in.
  using Claim = std::pair<std::string, std::string>;
  struct Owner {
    std::string name;
    std::string uid;
    std::string created;
  };
  using Owners = std::map<Claim, Owner>;

  void on_secrets(const std::vector<ObjectKey>& keys);
  void round_soon();
  void round();
  void sweep();
  void sweep_later(std::chrono::nanoseconds delay);
  bool look_at_all();
  std::vector<boost::json::object> all() const;
  std::optional<boost::json::object> find(const std::string& ns, const std::string& name) const;
  // The Pod of each claim: the oldest that mounts the claim's Secret.
  Owners owners() const;
  void adopt_new(const Owners& owners);
  void look_at(const boost::json::object& secret, const Owners& owners);
  // Ok also if nothing is left to do.
  Status adopt(const boost::json::object& secret, const Owner& owner);
  void collect(const Claim& claim, const boost::json::object& secret);
  bool pod_exists(const Claim& claim);

  Api& api_;
  const Runtime runtime_;
  const ObjectStore& store_;
  const std::function<bool()> may_write_;

  std::atomic<bool> touched_{false};  // a round is to come

  // On the strand.
  std::set<Claim> kept_;  // Secrets that have an owner, or are none of ours
  std::map<Claim, SteadyTime>
      orphans_;  // orphans of the last sweep with their first time; the next member:
  std::map<Claim, SteadyTime> orphans_now_;  // this one
  std::size_t deletions_left_ = 0;           // in this sweep
  bool listed_ = false;                      // since this replica may write
  bool current_ = false;                     // the next sweep needs no new list
  Strand strand_;
  Informer secrets_;
  std::optional<BootstrapRenewer> renewer_;
  Subscription round_timer_;
  Subscription sweep_timer_;
};

}  // namespace osm::inline v1::kubernetes
