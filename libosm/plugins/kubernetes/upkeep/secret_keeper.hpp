// Maintains the bootstrap Secrets of the injector. Each gets its Pod as owner, so that Kubernetes
// deletes it with the Pod. A Secret whose Pod never appears is deleted. Certificates in Secrets are
// renewed (bootstrap_renewer.hpp).
//
// Labels and the name mark our Secrets; no other Secret is ever changed. Only metadata is read: the
// keys stay in the API server. A round a second after a change of Pods or Secrets gives Secrets to
// their Pods; a sweep every minute does so as well, and deletes. While a sweep leaves some, sweeps
// follow each other: a flood of admission requests creates a hundred Secrets a second.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/log_limit.hpp"
#include "base/round.hpp"
#include "base/strand.hpp"
#include "kubernetes/upkeep/bootstrap_renewer.hpp"
#include "kubernetes/upkeep/mesh_secrets.hpp"
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
  void on_acquired() { sweep_.wake(); }
  // As BootstrapRenewer::stale(), and each namespace whose Secrets cannot be read counts as one.
  std::optional<std::size_t> stale() const;
  // Secrets that cannot be read. Thread: any. Blocking: no.
  std::vector<Problem> problems() const { return secrets_.problems(); }

 private:
  using SecretPtr = std::shared_ptr<const Object>;
  struct Owner {
    std::string created;
    std::string name;
    std::string uid;
  };

  void on_secrets();
  void follow_namespaces();
  Pause look();
  Pause sweep();
  void forget();
  bool has_synced() const;
  // The Pod of each bootstrap Secret: the oldest that mounts it.
  std::map<ObjectKey, Owner> owners() const;
  // Gives each Secret without an owner to its Pod. Result: those whose Pod is not known.
  std::vector<SecretPtr> adopt_all();
  void adopt(const Object& secret, const Owner& owner);
  // Tells the injectors the number of Secrets that wait for their Pod.
  void report(const std::vector<SecretPtr>& orphans);
  // Result: false if some that are given up are left, and the next sweep can delete them.
  bool collect(const std::vector<SecretPtr>& orphans);
  // True if the Pod of the Secret did not come for long enough.
  bool is_given_up(const Object& secret, SteadyTime since) const;
  // UUIDs of the Pods in a namespace, of all replicas' making. Failure: as Api.
  Result<std::set<std::string>> list_uuids(const std::string& ns);

  Api& api_;
  const Runtime runtime_;
  const ObjectStore& store_;
  const std::string mesh_name_;
  ReplicaBoard* const board_;  // may be null
  const std::function<bool()> may_write_;

  // On the strand.
  std::map<ObjectKey, SteadyTime> orphans_;  // of the last sweep, with their first time
  bool listed_ = false;                      // since this replica may write
  bool current_ = false;                     // the next sweep needs no new list
  LogLimit lines_;                           // about deletions
  Strand strand_;
  Round look_;
  Round sweep_;
  MeshSecrets secrets_;
  std::optional<BootstrapRenewer> renewer_;
};

}  // namespace osm::inline v1::kubernetes
