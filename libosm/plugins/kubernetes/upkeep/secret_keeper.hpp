// Looks after the bootstrap Secrets that the injector makes: each belongs to its Pod once that
// exists, so that Kubernetes takes it away with it; one whose Pod never came is deleted; and what
// is in them is renewed (bootstrap_renewer.hpp).
//
// A Secret is ours by its labels and its name; no other is ever touched. Only metadata is read: the
// keys stay in the API server. Secrets are not watched: Pods are, and every minute all are listed.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strand.hpp"
#include "kubernetes/client/surroundings.hpp"
#include "kubernetes/upkeep/bootstrap_renewer.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1::kubernetes {

struct SecretKeeperOptions {
  const ObjectStore& store;  // of Pods with a proxy UUID
  std::function<bool()> may_write;
  std::string mesh_name;
  std::chrono::minutes patience{10};              // with a Secret whose Pod does not come
  certificate::Manager* certificates = nullptr;   // null: what is in them is not renewed
  std::function<TrustDomains()> trust_domains{};  // of now
};

class SecretKeeper {
 public:
  SecretKeeper(const Surroundings& surroundings, SecretKeeperOptions options);
  // Blocking: until a call of the API that is under way has returned.
  ~SecretKeeper();
  SecretKeeper(const SecretKeeper&) = delete;
  SecretKeeper& operator=(const SecretKeeper&) = delete;

  // These objects changed. Thread: any. Blocking: no.
  void on_objects(const std::vector<ObjectKey>& keys);
  // This replica may write from now on. Thread: any. Blocking: no.
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

  void round();
  void sweep();
  bool look_at_all();
  // The Pod of each claim: the oldest that mounts the claim's Secret.
  Owners owners() const;
  void adopt_new(const Owners& owners);
  void look_at(const boost::json::object& secret, const Owners& owners);
  // Ok also when nothing is left to do.
  Status adopt(const boost::json::object& secret, const Owner& owner);
  void collect(const Claim& claim, const boost::json::object& secret);
  bool pod_exists(const Claim& claim);
  Result<std::vector<boost::json::object>> list(ListRequest request);

  const Surroundings with_;
  const SecretKeeperOptions options_;

  std::mutex mutex_;  // over `touched_`
  bool touched_ = false;

  // On the strand.
  std::set<Claim> kept_;                     // Secrets that have an owner, or are none of ours
  std::map<Claim, SteadyTime> orphans_;      // of the last sweep, since when; and of
  std::map<Claim, SteadyTime> orphans_now_;  // this one
  std::size_t deletions_left_ = 0;           // in this sweep
  Strand strand_;
  std::optional<BootstrapRenewer> renewer_;
  Subscription round_timer_;
  Subscription sweep_timer_;
};

}  // namespace osm::inline v1::kubernetes
