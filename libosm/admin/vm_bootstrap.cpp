#include "admin/vm_bootstrap.hpp"

#include <algorithm>
#include <utility>

#include "admin/admin_json.hpp"
#include "base/json.hpp"
#include "base/times.hpp"
#include "osm/certificate/request.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/mesh_spec.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

struct BootstrapRequest {
  WorkloadName workload;
  std::string request_pem;
  std::string controller;
  std::string directory;
  std::uint32_t proxy_uid = inject::kProxyUid;
  XdsVariant xds = XdsVariant::kDelta;
};

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<BootstrapRequest> decode(const std::string& body) {
  const auto parsed = parse_json_object(body, "the body");
  if (!parsed.ok()) return invalid(parsed.error().message);
  const json::object& fields = *parsed;
  BootstrapRequest request;
  const std::pair<const char*, std::string*> texts[] = {
      {"name", &request.workload.name},  {"namespace", &request.workload.ns},
      {"request", &request.request_pem}, {"controller", &request.controller},
      {"directory", &request.directory},
  };
  for (const auto& [name, text] : texts) {
    *text = text_at(fields, name);
    if (text->empty())
      return invalid(std::string("the field '") + name + "' is missing or not text");
  }
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
  return request;
}

Result<Workload> find_workload(const net::AdminApiOptions& options, const WorkloadName& name) {
  const std::vector<Workload> all =
      options.workloads ? options.workloads->list_workloads() : std::vector<Workload>();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Workload& w) { return w.name == name; });
  if (found != all.end()) return *found;
  std::string why;
  for (const Problem& problem : options.control_plane.status().problems)
    if (problem.object.is(kinds::kVirtualMachine) && problem.object.ns == name.ns &&
        problem.object.name == name.name)
      why += "; " + problem.text();
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

}  // namespace

Result<net::Response> vm_subject(const net::AdminApiOptions& options, const net::Request& request) {
  OSM_TRY(const std::string name, request.required("name"));
  OSM_TRY(const std::string ns, request.required("namespace"));
  OSM_TRY(const Workload workload, find_workload(options, {ns, name}));
  const certificate::Subject subject = options.control_plane.proxy_subject(workload);
  const MeshConfig config = options.spec.get_mesh_config();
  return answer(json::object{{"uuid", workload.proxy_id.str()},
                             {"common_name", subject.common_name.str()},
                             {"spiffe_id", subject.spiffe_id.str()},
                             {"key_algorithm", algorithm_of(config.certificates.key_type)},
                             {"rsa_key_bits", config.certificates.rsa_bits}});
}

Result<net::Response> bootstrap_vm(const net::AdminApiOptions& options,
                                   const net::Request& request) {
  OSM_TRY(const BootstrapRequest decoded, decode(request.body));
  OSM_TRY(const Workload workload, find_workload(options, decoded.workload));
  OSM_TRY(const auto issued,
          options.control_plane.issue_proxy_certificate(
              workload, decoded.request_pem,
              certificate::proxy_certificate_life(
                  options.spec.get_mesh_config().certificates.proxy_validity),
              {.reason = certificate::IssueReason::kBootstrap, .identity = request.client}));
  const certificate::Certificate& certificate = *issued;
  const std::string bundle = options.certificates.trust_bundle_pem();
  OSM_TRY(const auto files,
          inject::vm_bootstrap({.workload = workload.name,
                                .account = workload.account,
                                .trust_domain = options.root_rotation
                                                    ? options.root_rotation->trust_domains()
                                                    : TrustDomains(options.trust_domain),
                                .controller = decoded.controller,
                                .directory = decoded.directory,
                                .certificate = certificate,
                                .trust_bundle_pem = bundle,
                                .services = services_of(options.spec),
                                .interception = {.proxy_uid = decoded.proxy_uid},
                                .xds = decoded.xds}));
  options.runtime.log.info("proxy certificate issued for a machine",
                           {{"workload", workload.name.str()},
                            {"uuid", workload.proxy_id.str()},
                            {"common_name", certificate.subject.common_name.str()},
                            {"serial_number", certificate.serial_number}});

  json::array list;
  for (const inject::BootstrapFile& file : files) {
    list.push_back(json::object{{"name", file.name},
                                {"mode", file.mode},
                                {"proxys", file.proxys},
                                {"content", file.content}});
  }
  return answer(json::object{{"uuid", workload.proxy_id.str()},
                             {"common_name", certificate.subject.common_name.str()},
                             {"not_after", rfc3339(certificate.not_after, 3)},
                             {"files", std::move(list)}});
}

}  // namespace osm::inline v1::admin
