#include "admin/vm_bootstrap.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <optional>

#include "osm/certificate/request.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/control_plane.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/runtime/json_log.hpp"

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

// The user id Envoy runs as; absent: the usual one. What may not be one is the script's to refuse.
Result<std::uint32_t> decode_proxy_uid(const json::object& fields) {
  const json::value* field = fields.if_contains("proxy_uid");
  if (!field) return inject::kProxyUid;
  boost::system::error_code failed;
  const auto uid = field->to_number<std::uint32_t>(failed);
  if (failed) return Error{ErrorCode::kInvalidArgument, "the field 'proxy_uid' is no user id"};
  return uid;
}

// Variant of xDS that Envoy speaks; absent: delta.
Result<XdsVariant> decode_xds(const json::object& fields) {
  const json::value* field = fields.if_contains("xds");
  if (!field) return XdsVariant::kDelta;
  const auto variant =
      field->is_string() ? xds_variant_of(std::string_view(field->as_string())) : std::nullopt;
  if (!variant)
    return Error{ErrorCode::kInvalidArgument, "the field 'xds' is neither \"delta\" nor \"sotw\""};
  return *variant;
}

Result<BootstrapRequest> decode(const std::string& body) {
  boost::system::error_code failed;
  const json::value value = json::parse(body, failed);
  if (failed || !value.is_object())
    return Error{ErrorCode::kInvalidArgument, "the body is not a JSON object"};
  BootstrapRequest request;
  const std::pair<const char*, std::string*> fields[] = {
      {"name", &request.workload.name},  {"namespace", &request.workload.ns},
      {"request", &request.request_pem}, {"controller", &request.controller},
      {"directory", &request.directory},
  };
  for (const auto& [name, out] : fields) {
    const json::value* field = value.as_object().if_contains(name);
    if (!field || !field->is_string() || field->as_string().empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   std::string("the field '") + name + "' is missing or not text"};
    }
    *out = std::string(field->as_string());
  }
  OSM_TRY(request.proxy_uid, decode_proxy_uid(value.as_object()));
  OSM_TRY(request.xds, decode_xds(value.as_object()));
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
    if (problem.object.kind == "VirtualMachine" && problem.object.ns == name.ns &&
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

net::Response vm_subject(const net::AdminApiOptions& options, const net::Request& request) {
  const auto name = request.required("name");
  if (!name.ok()) return net::error_response(name.error());
  const auto ns = request.required("namespace");
  if (!ns.ok()) return net::error_response(ns.error());
  const auto workload = find_workload(options, {*ns, *name});
  if (!workload.ok()) return net::error_response(workload.error());
  const certificate::Subject subject = options.control_plane.proxy_subject(*workload);
  const MeshConfig config = options.spec.get_mesh_config();
  return net::json_response(
      json::serialize(json::object{{"uuid", workload->proxy_id.str()},
                                   {"common_name", subject.common_name.str()},
                                   {"spiffe_id", subject.spiffe_id.str()},
                                   {"key_algorithm", algorithm_of(config.certificates.key_type)},
                                   {"rsa_key_bits", config.certificates.rsa_bits}}));
}

net::Response bootstrap_vm(const net::AdminApiOptions& options, const net::Request& request) {
  const auto decoded = decode(request.body);
  if (!decoded.ok()) return net::error_response(decoded.error());
  const auto workload = find_workload(options, decoded->workload);
  if (!workload.ok()) return net::error_response(workload.error());
  const auto issued = options.control_plane.issue_proxy_certificate(
      *workload, decoded->request_pem, certificate::kProxyCertificateValidity);
  if (!issued.ok()) return net::error_response(issued.error());
  const certificate::Certificate& certificate = **issued;
  const std::string bundle = options.certificates.trust_bundle_pem();
  const auto files = inject::vm_bootstrap(
      {.workload = workload->name,
       .account = workload->account,
       .trust_domain = options.root_rotation ? options.root_rotation->trust_domains()
                                             : TrustDomains(options.trust_domain),
       .controller = decoded->controller,
       .directory = decoded->directory,
       .certificate = certificate,
       .trust_bundle_pem = bundle,
       .services = services_of(options.spec),
       .interception = {.proxy_uid = decoded->proxy_uid},
       .xds = decoded->xds});
  if (!files.ok()) return net::error_response(files.error());
  options.runtime.log.info("proxy certificate issued for a machine",
                           {{"workload", workload->name.str()},
                            {"uuid", workload->proxy_id.str()},
                            {"common_name", certificate.subject.common_name.str()},
                            {"serial_number", certificate.serial_number}});

  json::array list;
  for (const inject::BootstrapFile& file : *files) {
    list.push_back(json::object{{"name", file.name},
                                {"mode", file.mode},
                                {"proxys", file.proxys},
                                {"content", file.content}});
  }
  return net::json_response(
      json::serialize(json::object{{"uuid", workload->proxy_id.str()},
                                   {"common_name", certificate.subject.common_name.str()},
                                   {"not_after", net::rfc3339(certificate.not_after)},
                                   {"files", std::move(list)}}));
}

}  // namespace osm::inline v1::admin
