// The mesh specification without the objects that proxies refuse. The catalog reads this one, so
// that a withheld object is left out like an invalid one: a withheld permission grants nothing, a
// withheld split diverts nothing, and a withheld MeshConfig is replaced by one that allows no more.
//
// One value of an object is withheld. Once the object changes, it is listed again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/pulse.hpp"
#include "base/strand.hpp"
#include "model/spec_objects.hpp"
#include "osm/clock.hpp"
#include "osm/executor.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/notifier.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::nack_provenance {

class WithheldSpec final : public MeshSpec {
 public:
  // Lifetime: all outlive the value. Subscribers are called on `executor`, one call at a time.
  WithheldSpec(MeshSpec& spec, Executor& executor, const Clock& clock);
  ~WithheldSpec() override;  // stop()

  // Ends the subscription to the specification. Lists can still be read. Idempotent.
  void stop();

  // Failure: kUnavailable: its strand hangs (Pulse). Thread: any. Blocking: no.
  Status alive() const { return pulse_.check(); }

  // Leaves out `problem.object` while it has the value that it has in `refused`, and lists
  // `problem`, with the object's source. A MeshConfig is replaced by `good`. Does nothing if the
  // object has another value by now. Thread: any.
  void withhold(Problem problem, const model::SpecObjects& refused, const MeshConfig& good = {});

  SharedList<smi::TrafficSplit> list_traffic_splits() const override;
  SharedList<smi::HttpRouteGroup> list_http_traffic_specs() const override;
  SharedList<smi::TcpRoute> list_tcp_traffic_specs() const override;
  SharedList<smi::TrafficTarget> list_traffic_targets() const override;
  std::vector<ServiceAccount> list_service_accounts() const override {
    return spec_.list_service_accounts();
  }
  SharedList<Service> list_services() const override;
  SharedList<Policy> list_policies() const override;
  std::shared_ptr<const Service> get_service(const ServiceName& name) const override;
  std::vector<ServiceAccount> list_all_service_accounts() const override {
    return spec_.list_all_service_accounts();
  }
  std::vector<std::string> list_namespaces() const override { return spec_.list_namespaces(); }
  MeshConfig get_mesh_config() const override;
  SharedList<MeshRootCertificate> list_root_certificates() const override {
    return spec_.list_root_certificates();
  }
  std::string control_plane_namespace() const override { return spec_.control_plane_namespace(); }
  bool has_synced() const override { return spec_.has_synced(); }
  std::vector<Problem> list_problems() const override;
  ObjectSource source_of(const ObjectKey& key) const override { return spec_.source_of(key); }
  Subscription subscribe(
      std::function<void(const std::vector<ObjectKey>& changed)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  struct Entry {
    Problem problem;
    model::SpecObjects refused;  // the one object
    MeshConfig good;
  };
  using Entries = std::map<ObjectKey, Entry>;

  std::shared_ptr<const Entries> entries() const;
  template <class T>
  SharedList<T> left(SharedList<T> list, SharedList<T> model::SpecObjects::*refused) const;
  bool applies(const Entry& entry) const;
  void lift(const std::vector<ObjectKey>& changed);

  MeshSpec& spec_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Entries> entries_ = std::make_shared<const Entries>();
  Notifier<const std::vector<ObjectKey>&> changed_;
  Strand strand_;
  mutable Pulse pulse_;
  Subscription spec_changes_;
};

}  // namespace osm::inline v1::nack_provenance
