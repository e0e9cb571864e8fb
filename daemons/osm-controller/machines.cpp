#include "machines.hpp"

#include <chrono>
#include <fstream>
#include <utility>

#include "daemon.hpp"

namespace osm::controller {
namespace {

constexpr std::size_t kMaxConfig = 64 * 1024;

}  // namespace

Result<std::unique_ptr<Machines>> Machines::start(const Options& options, OwnRuntime& runtime,
                                                  const Backend& backend, MeshSpec& spec,
                                                  Executor& records) {
  std::unique_ptr<Machines> out(new Machines(runtime.lanes()));
  out->drained_ = vm::make_drained_machines(
      {.record = *backend.drained_machines,
       .runtime = daemon::with_executors(runtime, runtime.executor, records),
       .interval = backend.read_every});
  ObjectStore& store = *backend.objects;
  const Runtime waiting = daemon::with_executors(runtime, runtime.executor, out->resolving_);
  out->vms_ = vm::make_vm_provider({.store = store,
                                    .mesh_spec = spec,
                                    .trust_domain = options.trust_domain,
                                    .log = runtime.log,
                                    .metrics = runtime.metrics,
                                    .drained = out->drained_.get()});
  out->drained_->follow(out->vms_.get(), [vms = out->vms_.get()] { return vms->has_synced(); });
  OSM_TRY(out->dns_resolver_,
          dns::make_dns_resolver({.runtime = waiting, .servers = options.dns_servers}));
  out->dns_ = dns::make_dns_provider({.resolver = *out->dns_resolver_,
                                      .store = store,
                                      .mesh_spec = spec,
                                      .trust_domain = options.trust_domain,
                                      .log = runtime.log,
                                      .metrics = runtime.metrics});
  OSM_TRY(out->start_azure(options, runtime));
  out->azure_ = azure::make_azure_provider({.resolver = out->azure_resolver_.get(),
                                            .store = store,
                                            .mesh_spec = spec,
                                            .trust_domain = options.trust_domain,
                                            .log = runtime.log,
                                            .metrics = runtime.metrics});
  return out;
}

Status Machines::start_azure(const Options& options, OwnRuntime& runtime) {
  if (options.azure_config.empty()) return {};
  std::ifstream file(options.azure_config, std::ios::binary);
  std::string text(kMaxConfig + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.empty())
    return Error{ErrorCode::kUnreadableSource,
                 options.azure_config + ": cannot be read, or is empty"};
  auto settings = azure::parse_azure_config(text);
  if (!settings) return settings.error().with_context(options.azure_config);
  asking_.emplace(runtime.lanes(), net::LaneOptions{.name = "Azure", .bound = 6});
  OSM_TRY(azure_resolver_, azure::make_azure_resolver({.settings = *std::move(settings),
                                                       .io = runtime.asio(),
                                                       .runtime = daemon::with_executors(
                                                           runtime, runtime.executor, *asking_)}));
  return {};
}

std::vector<ProviderEntry> Machines::providers() {
  return {{.provider = vms_.get()}, {.provider = dns_.get()}, {.provider = azure_.get()}};
}

std::vector<WorkloadProvider*> Machines::workload_providers() {
  return {vms_.get(), dns_.get(), azure_.get()};
}

}  // namespace osm::controller
