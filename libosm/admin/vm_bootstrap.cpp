#include "admin/vm_bootstrap.hpp"

#include <algorithm>
#include <utility>

#include "admin/admin_json.hpp"
#include "admin/grpc_bootstrap.hpp"
#include "admin/handlers.hpp"
#include "base/json.hpp"
#include "base/times.hpp"
#include "osm/certificate/request.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

struct BootstrapRequest {
  std::string request_pem;
  std::string controller;
  std::string directory;
  std::uint32_t proxy_uid = inject::kProxyUid;
  XdsVariant xds = XdsVariant::kDelta;
  bool grpc = false;
};

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<BootstrapRequest> decode(const json::object& fields) {
  BootstrapRequest request;
  OSM_TRY(request.request_pem, required_text(fields, "request"));
  OSM_TRY(request.controller, required_text(fields, "controller"));
  OSM_TRY(request.directory, required_text(fields, "directory"));
  if (const json::value* uid = fields.if_contains("proxy_uid")) {
    boost::system::error_code failed;
    request.proxy_uid = uid->to_number<std::uint32_t>(failed);
    if (failed) return invalid("the field 'proxy_uid' is no user id");
  }
  if (fields.contains("xds")) {
    const auto variant = xds_variant_of(text_at(fields, "xds"));
    if (!variant) return invalid("the field 'xds' is neither \"delta\" nor \"sotw\"");
    request.xds = *variant;
  }
  request.grpc = bool_at(fields, "grpc").value_or(false);
  return request;
}

bool is_resource(const ObjectKey& object) {
  return object.is(kinds::kDnsResource) || object.is(kinds::kAzureResource);
}

// True if the object may declare the machine. Those behind a resource are <object>-<instance>.
bool declares(const ObjectKey& object, const WorkloadName& machine) {
  if (object.ns != machine.ns) return false;
  if (object.name == machine.name) return object.is(kinds::kVirtualMachine) || is_resource(object);
  return is_resource(object) && machine.name.starts_with(object.name + '-');
}

Result<Workload> find_workload(const net::AdminApiOptions& options, const WorkloadName& name) {
  const std::vector<Workload> all =
      options.workloads ? options.workloads->list_workloads() : std::vector<Workload>();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Workload& w) { return w.name == name; });
  if (found != all.end()) return *found;
  std::string why;
  for (const Problem& problem : options.control_plane.status().problems)
    if (declares(problem.object, name)) why += "; " + problem.text();
  if (why.empty()) {
    why = ": write one into the mesh directory, in a namespace with the monitored-by label";
  }
  return Error{ErrorCode::kNotFound, "the mesh has no VirtualMachine " + name.str() + why};
}

std::vector<Service> services_of(const MeshSpec& spec) {
  std::vector<Service> services;
  for (const auto& service : spec.list_services()) services.push_back(*service);
  return services;
}

Result<inject::InterceptionOptions> interception_of(const net::AdminApiOptions& options,
                                                    const MeshConfig& config,
                                                    const WorkloadName& name) {
  const auto machine =
      options.store ? options.store->get({kinds::kVirtualMachine, name.ns, name.name}) : nullptr;
  Object none;
  none.document = std::make_shared<const json::value>(json::object());
  return inject::machine_interception(config.injection.exclusions, machine ? *machine : none);
}

// The DNS name of the certificate that proxies are shown; empty: there is none.
std::string controller_name(const net::AdminApiOptions& options) {
  for (const auto& held : options.certificates.list_certificates())
    if (held->subject.usage == certificate::Usage::kController && !held->subject.dns_names.empty())
      return held->subject.dns_names.front();
  return {};
}

std::string_view algorithm_of(KeyType type) {
  switch (type) {
    case KeyType::kRsa:
      return "RSA";
    case KeyType::kEd25519:
      return "Ed25519";
    case KeyType::kEcdsaP256:
      break;
  }
  return "ECDSA";
}

// A request for a machine's files, and the mesh's part of the answer.
struct Wanted {
  BootstrapRequest request;
  Workload workload;
  MeshConfig config;
  inject::InterceptionOptions interception;
};

Result<Wanted> read_wanted(const net::AdminApiOptions& options, const WorkloadName& machine,
                           const json::object& body) {
  Wanted wanted;
  OSM_TRY(wanted.request, decode(body));
  OSM_TRY(wanted.workload, find_workload(options, machine));
  wanted.config = options.spec.get_mesh_config();
  OSM_TRY(wanted.interception, interception_of(options, wanted.config, machine));
  wanted.interception.proxy_uid = wanted.request.proxy_uid;
  return wanted;
}

Result<std::vector<inject::BootstrapFile>> files_of(const net::AdminApiOptions& options,
                                                    const Wanted& wanted,
                                                    const certificate::Certificate& certificate) {
  const std::string bundle = options.certificates.trust_bundle_pem();
  OSM_TRY(auto files,
          inject::vm_bootstrap({.workload = wanted.workload.name,
                                .account = wanted.workload.account,
                                .trust_domain = options.root_rotation
                                                    ? options.root_rotation->trust_domains()
                                                    : TrustDomains(options.trust_domain),
                                .controller = wanted.request.controller,
                                .directory = wanted.request.directory,
                                .certificate = certificate,
                                .trust_bundle_pem = bundle,
                                .services = services_of(options.spec),
                                .cluster_domain = wanted.config.proxy.cluster_domain,
                                .interception = wanted.interception,
                                .xds = wanted.request.xds}));
  if (wanted.request.grpc)
    OSM_TRY(add_grpc_bootstrap({.node_id = certificate.subject.common_name.str(),
                                .controller = wanted.request.controller,
                                .controller_name = controller_name(options),
                                .directory = wanted.request.directory},
                               files));
  return files;
}

// Makes the files of a certificate that is not issued: a refusal leaves no certificate behind.
Status check(const net::AdminApiOptions& options, const Wanted& wanted) {
  certificate::Certificate none;
  none.subject = options.control_plane.proxy_subject(wanted.workload);
  none.chain_pem = "(not issued)";
  OSM_TRY(certificate::check_request(none.subject, wanted.request.request_pem));
  OSM_TRY(files_of(options, wanted, none));
  return {};
}

}  // namespace

Result<json::object> body_of(const net::Request& request) {
  auto parsed = parse_json_object(request.body, "the body");
  if (!parsed.ok()) return invalid(parsed.error().message);
  return parsed;
}

Result<std::string> required_text(const json::object& fields, const char* name) {
  std::string text = text_at(fields, name);
  if (text.empty()) return invalid(std::string("the field '") + name + "' is missing or not text");
  return text;
}

Result<WorkloadName> machine_of(const json::object& fields) {
  WorkloadName machine;
  OSM_TRY(machine.name, required_text(fields, "name"));
  OSM_TRY(machine.ns, required_text(fields, "namespace"));
  return machine;
}

Result<net::Response> vm_subject(const net::AdminApiOptions& options, const net::Request& request) {
  OSM_TRY(const std::string name, request.required("name"));
  OSM_TRY(const std::string ns, request.required("namespace"));
  return subject_of(options, {ns, name});
}

Result<net::Response> bootstrap_vm(const net::AdminApiOptions& options,
                                   const net::Request& request) {
  OSM_TRY(const json::object body, body_of(request));
  OSM_TRY(const WorkloadName machine, machine_of(body));
  return bootstrap(options, machine, body, request.client);
}

Result<net::Response> subject_of(const net::AdminApiOptions& options, const WorkloadName& machine) {
  OSM_TRY(const Workload workload, find_workload(options, machine));
  const certificate::Subject subject = options.control_plane.proxy_subject(workload);
  const MeshConfig config = options.spec.get_mesh_config();
  return answer(json::object{{"namespace", workload.name.ns},
                             {"name", workload.name.name},
                             {"uuid", workload.proxy_id.str()},
                             {"common_name", subject.common_name.str()},
                             {"spiffe_id", subject.spiffe_id.str()},
                             {"key_algorithm", algorithm_of(config.certificates.key_type)},
                             {"rsa_key_bits", config.certificates.rsa_bits}});
}

Status check_bootstrap(const net::AdminApiOptions& options, const WorkloadName& machine,
                       const json::object& body) {
  OSM_TRY(const Wanted wanted, read_wanted(options, machine, body));
  return check(options, wanted);
}

Result<net::Response> bootstrap(const net::AdminApiOptions& options, const WorkloadName& machine,
                                const json::object& body, const std::string& client) {
  OSM_TRY(const Wanted wanted, read_wanted(options, machine, body));
  OSM_TRY(check(options, wanted));
  const CertificateSettings& settings = wanted.config.certificates;
  OSM_TRY(const auto issued,
          options.control_plane.issue_proxy_certificate(
              wanted.workload, wanted.request.request_pem,
              certificate::proxy_certificate_life(settings.proxy_validity),
              {.reason = certificate::IssueReason::kBootstrap, .identity = client}));
  const certificate::Certificate& certificate = *issued;
  OSM_TRY(const auto files, files_of(options, wanted, certificate));
  options.runtime.log.info("proxy certificate issued for a machine",
                           {{"workload", wanted.workload.name.str()},
                            {"uuid", wanted.workload.proxy_id.str()},
                            {"common_name", certificate.subject.common_name.str()},
                            {"serial_number", certificate.serial_number}});

  json::array list;
  for (const inject::BootstrapFile& file : files) {
    list.push_back(json::object{{"name", file.name},
                                {"mode", file.mode},
                                {"proxys", file.proxys},
                                {"content", file.content}});
  }
  const auto times = certificate::proxy_certificate_times(
      certificate.not_before, certificate.not_after, settings.proxy_validity);
  return answer(json::object{{"uuid", wanted.workload.proxy_id.str()},
                             {"common_name", certificate.subject.common_name.str()},
                             {"served_until", rfc3339(times.served_until, 3)},
                             {"not_after", rfc3339(certificate.not_after, 3)},
                             {"files", std::move(list)}});
}

}  // namespace osm::inline v1::admin
