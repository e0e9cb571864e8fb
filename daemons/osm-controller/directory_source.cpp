#include "directory_source.hpp"

#include <utility>

#include "ca.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "state_dir.hpp"

namespace osm::controller {
namespace {

class DirectorySource final : public MeshSource {
 public:
  explicit DirectorySource(const MeshSourceOptions& with) : with_(with) {}

  Status start() {
    OSM_TRY(store_, spec::make_directory_store({.directory = with_.options.mesh_dir,
                                                .watcher = with_.runtime.asio(),
                                                .runtime = with_.runtime}));
    spec_ = spec::make_mesh_spec({.store = *store_,
                                  .mesh_name = with_.options.mesh_name,
                                  .osm_namespace = with_.options.osm_namespace,
                                  .log = with_.runtime.log,
                                  .metrics = with_.runtime.metrics});
    record_ = make_file_record(with_.options.state_dir + "/rotation.json");
    vms_ = vm::make_vm_provider({.store = *store_,
                                 .mesh_spec = *spec_,
                                 .trust_domain = with_.options.trust_domain,
                                 .log = with_.runtime.log,
                                 .metrics = with_.runtime.metrics});
    return {};
  }

  ObjectStore& store() override { return *store_; }
  MeshSpec& spec() override { return *spec_; }
  std::vector<ProviderEntry> providers() override { return {{.provider = vms_.get()}}; }
  std::vector<WorkloadProvider*> workload_providers() override { return {vms_.get()}; }
  const WorkloadProvider& machines() override { return *vms_; }

  Result<std::unique_ptr<certificate::Issuer>> load_ca(const std::string& ca_directory) override {
    return daemon::load_ca({.options = with_.options.ca,
                            .trust_domain = with_.options.trust_domain,
                            .osm_namespace = with_.options.osm_namespace,
                            .directory = ca_directory,
                            .io = with_.runtime.asio(),
                            .runtime = with_.runtime});
  }

  Result<std::shared_ptr<certificate::Issuer>> make_root(
      const MeshRootCertificate& described) override {
    return daemon::make_root({.options = with_.options.ca,
                              .trust_domain = with_.options.trust_domain,
                              .osm_namespace = with_.options.osm_namespace,
                              .directory = with_.options.state_dir + "/roots/" + described.name,
                              .io = with_.runtime.asio(),
                              .runtime = with_.runtime},
                             described);
  }

  RotationRecord& rotation_record() override { return *record_; }
  ReplicaBoard* board() override { return nullptr; }
  bool leads() const override { return true; }  // there is no other
  std::optional<std::size_t> kept_lag() const override { return 0; }

  Status start_upkeep(ControlPlane&, certificate::Manager&, const RootRotation&) override {
    return {};
  }
  Status set_trust_domains(const TrustDomains&) override { return {}; }
  void stop(std::chrono::milliseconds) override {}

 private:
  const MeshSourceOptions with_;
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<vm::VmProvider> vms_;
  std::unique_ptr<RotationRecord> record_;
};

}  // namespace

Result<std::unique_ptr<MeshSource>> make_directory_source(const MeshSourceOptions& with) {
  OSM_TRY(check_mesh_dir(with.options.mesh_dir));
  auto source = std::make_unique<DirectorySource>(with);
  OSM_TRY(source->start());
  return std::unique_ptr<MeshSource>(std::move(source));
}

}  // namespace osm::controller
