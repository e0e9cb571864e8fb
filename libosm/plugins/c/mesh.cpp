#include "c/mesh.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "c/memory_ca.hpp"
#include "c/memory_store.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/inject/validator.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/values/object_status.hpp"

namespace osm::inline v1::c {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLook{100};  // for what a source does without an announcement

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<LogLevel> level_of(const std::string& text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  return invalid("osm_options_set_log(): level '" + text +
                 "' is unknown; write debug, info, warning or error");
}

Status check(const MeshOptions& options) {
  if (!is_dns_name(options.trust_domain))
    return invalid("osm_options_set_trust_domain(): '" + options.trust_domain +
                   "' is no DNS name; write one such as cluster.local");
  if (!options.ca_directory.empty() && !options.ca_pem.empty())
    return invalid(
        "osm_options_set_ca_directory() and osm_options_set_ca_pem(): both are set; set one of "
        "them");
  if (const auto address = net::parse_address(options.ads_address); !address.ok())
    return address.error().with_context("osm_options_set_ads_address()");
  return {};
}

Result<std::shared_ptr<certificate::Issuer>> open_ca(const MeshOptions& options,
                                                     const Clock& clock) {
  const TrustDomain domain(options.trust_domain);
  if (!options.ca_directory.empty()) {
    OSM_TRY(auto issuer,
            certificate::load_or_create_directory_ca(
                {.directory = options.ca_directory, .trust_domain = domain, .clock = clock}));
    return std::shared_ptr<certificate::Issuer>(std::move(issuer));
  }
  MemoryCa store;
  const certificate::CaOptions ca{.store = store, .trust_domain = domain, .clock = clock};
  if (!options.ca_pem.empty())
    if (const Status imported = certificate::import_ca(ca, certificate::PrivateKey(options.ca_pem));
        !imported.ok())
      return imported.error().with_context("osm_options_set_ca_pem()");
  OSM_TRY(auto issuer, certificate::load_or_create_ca(ca));
  return std::shared_ptr<certificate::Issuer>(std::move(issuer));
}

std::vector<Problem> check_unused(const Object& object, const std::string& /*cluster_domain*/) {
  return {{.code = ErrorCode::kUnknownKind,
           .object = object.key,
           .path = {},
           .field = {},
           .cause = "this mesh resolves no " + object.key.kind + "; write VirtualMachines"}};
}

// This mesh has no resolver: machines behind ids and names would have no endpoints.
spec::Kinds checked_kinds() {
  spec::Kinds kinds = spec::mesh_kinds();
  for (spec::Kind& kind : kinds) {
    if (kind.name == kinds::kDnsResource || kind.name == kinds::kAzureResource)
      kind.check = check_unused;
  }
  return kinds;
}

std::string listed(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += (out.empty() ? "" : "; ") + line;
  return out;
}

}  // namespace

Mesh::Mesh(const MeshOptions& options, LogLevel least)
    : own_({.least = least, .log_fd = options.log_fd}),
      runtime_{own_.executor,
               own_.blocking,
               own_.clock,
               own_.rng,
               options.log_fd < 0 ? static_cast<LogSink&>(no_log_) : own_.log,
               own_.metrics} {}

Mesh::~Mesh() = default;

Result<std::unique_ptr<Mesh>> Mesh::start(const MeshOptions& options) {
  OSM_TRY(check(options));
  OSM_TRY(const LogLevel least, level_of(options.log_level));
  std::unique_ptr<Mesh> mesh(new Mesh(options, least));
  for (const auto step : {&Mesh::open_objects, &Mesh::open_certificates, &Mesh::serve})
    OSM_TRY((mesh.get()->*step)(options));
  return mesh;
}

Status Mesh::open_objects(const MeshOptions& options) {
  if (options.mesh_directory.empty()) {
    auto memory = std::make_unique<MemoryStore>();
    memory_ = memory.get();
    store_ = std::move(memory);
  } else {
    auto store = spec::make_directory_store(
        {.directory = options.mesh_directory, .watcher = own_.asio(), .runtime = runtime_});
    if (!store.ok()) return store.error().with_context("osm_options_set_mesh_directory()");
    store_ = *std::move(store);
  }
  spec_ =
      spec::make_mesh_spec({.store = *store_, .log = runtime_.log, .metrics = runtime_.metrics});
  machines_ = vm::make_vm_provider(
      {*store_, *spec_, TrustDomain(options.trust_domain), runtime_.log, runtime_.metrics});
  return {};
}

Status Mesh::open_certificates(const MeshOptions& options) {
  OSM_TRY(auto issuer, open_ca(options, runtime_.clock));
  manager_ = certificate::make_manager(
      {.issuer = std::move(issuer), .runtime = runtime_, .key_parameters = [this] {
         const MeshConfig config = spec_->get_mesh_config();
         return certificate::KeyParameters{config.certificates.key_type,
                                           config.certificates.rsa_bits};
       }});
  return {};
}

Status Mesh::serve(const MeshOptions& options) {
  const TrustDomain domain(options.trust_domain);
  OSM_TRY(control_plane_, ControlPlane::start({.spec = *spec_,
                                               .providers = {{.provider = machines_.get()}},
                                               .workload_providers = {machines_.get()},
                                               .certificates = *manager_,
                                               .runtime = runtime_,
                                               .trust_domain = domain,
                                               .ads_address = options.ads_address}));
  ads_address_ = control_plane_->ads_address();
  validator_ = inject::make_validator({.mesh_spec = *spec_,
                                       .metrics = runtime_.metrics,
                                       .store = store_.get(),
                                       .kinds = checked_kinds()});
  admin_ = net::make_admin_api({.runtime = runtime_,
                                .control_plane = *control_plane_,
                                .spec = *spec_,
                                .certificates = *manager_,
                                .store = store_.get(),
                                .workloads = machines_.get(),
                                .writer = memory_,
                                .validator = validator_.get(),
                                .objects_in = options.mesh_directory,
                                .trust_domain = domain});
  return {};
}

Status Mesh::wait_ready(milliseconds timeout) const {
  const auto end = steady_clock::now() + timeout;
  std::mutex mutex;
  std::condition_variable changed;
  const Subscription news = control_plane_->subscribe([&] {
    std::lock_guard lock(mutex);
    changed.notify_all();
  });
  for (;;) {
    const ControlPlaneStatus status = control_plane_->status();
    if (status.waiting_for.empty()) return {};
    const auto now = steady_clock::now();
    if (now >= end) {
      std::vector<std::string> reasons;
      for (const Problem& problem : store_->list_problems()) reasons.push_back(problem.text());
      return Error{ErrorCode::kDeadlineExceeded,
                   "the mesh is not ready: it waits for " + listed(status.waiting_for) +
                       (reasons.empty() ? "" : ": " + listed(reasons))};
    }
    std::unique_lock lock(mutex);
    changed.wait_until(lock, std::min(end, now + kLook));
  }
}

Status Mesh::wait_applied(std::string_view yaml, milliseconds timeout) const {
  const auto end = steady_clock::now() + timeout;
  const auto left = [&] {
    const auto rest = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    return std::max(rest, milliseconds(0));
  };
  OSM_TRY(const auto objects, spec::read_objects(yaml, "yaml"));
  for (const auto& object : objects) {
    if (!store_->catch_up(object->key, left()))
      return Error{ErrorCode::kDeadlineExceeded,
                   object->key.str() + ": its source could not be read in time"};
    const auto live = control_plane_->wait_until_applied(object->key, left());
    if (live.ok()) continue;
    // An object of a kind without receipts, such as a Namespace, is in the store and not found
    // here.
    if (live.error().code != ErrorCode::kNotFound || !store_->get(object->key)) return live.error();
  }
  return {};
}

Status Mesh::stop(milliseconds deadline) { return control_plane_->shutdown(deadline); }

}  // namespace osm::inline v1::c
