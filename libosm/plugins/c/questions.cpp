// Calls that the admin API answers, so that its rules, texts and JSON are those of the osm command.
#include <boost/json.hpp>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "c/mesh.hpp"
#include "osm/certificate/request.hpp"
#include "osm/endpoints_provider.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/spec/vm_provider.hpp"

namespace osm::inline v1::c {
namespace {

namespace json = boost::json;

ErrorCode code_of(std::string_view text) {
  for (int code = 0; code < static_cast<int>(ErrorCode::kInternal); ++code)
    if (error_code_text(static_cast<ErrorCode>(code)) == text) return static_cast<ErrorCode>(code);
  return ErrorCode::kInternal;
}

// {"code", "message"} of an answer.
Error error_of(const json::object& fields) {
  return {code_of(text_at(fields, "code")), text_at(fields, "message")};
}

// All refusals in one error, each with its object; the code is that of the first one.
Status refusals_in(const json::object& answer) {
  std::optional<Error> first;
  for (const json::value& change : list_at(answer, "objects")) {
    const json::object& fields = map_at(change, "error");
    if (fields.empty()) continue;
    Error error = error_of(fields);
    const std::string object = text_at(change, "object");
    if (error.message.find(object) == std::string::npos) error.message.insert(0, object + ": ");
    if (first)
      first->message += '\n' + error.message;
    else
      first = std::move(error);
  }
  if (first) return *std::move(first);
  return {};
}

net::Request request_of(const char* method, std::string path) {
  net::Request request;
  request.method = method;
  request.path = std::move(path);
  request.client = "host";  // for the audit log
  return request;
}

}  // namespace

Result<std::string> Mesh::ask(const net::Request& request) const {
  net::Response response = admin_(request);
  if (response.status < 400) return std::move(response.body);
  OSM_TRY(const json::object answer, parse_json_object(response.body, "the answer"));
  return error_of(map_at(answer, "error"));
}

Result<std::string> Mesh::get(std::string_view target) const {
  if (target == "/metrics") return own_.registry().expose();
  OSM_TRY(net::Request request, net::parse_target(target));
  request.method = "GET";
  OSM_TRY(std::string answer, ask(request));
  if (answer.ends_with('\n')) answer.pop_back();
  return answer;
}

Status Mesh::change(const std::string& verb, std::string_view yaml) const {
  OSM_TRY(const auto objects, spec::read_objects(yaml, "yaml"));
  json::array documents;
  for (const auto& object : objects) documents.push_back(*object->document);
  net::Request request = request_of("POST", "/v1/objects/" + verb);
  request.body = json::serialize(json::object{{"objects", std::move(documents)}});
  OSM_TRY(const std::string body, ask(request));
  OSM_TRY(const json::object answer, parse_json_object(body, "the answer"));
  return refusals_in(answer);
}

Result<std::vector<MachineFile>> Mesh::bootstrap(const Machine& machine) const {
  std::vector<MachineFile> files;
  std::string certificate_request = machine.request_pem;
  if (certificate_request.empty()) {
    net::Request subject = request_of("GET", "/v1/vm/subject");
    subject.query = {{"namespace", machine.ns}, {"name", machine.name}};
    OSM_TRY(ask(subject));  // says why there is no such machine
    const auto workload = machines_->find_workload({machine.ns, machine.name});
    if (!workload)
      return Error{ErrorCode::kNotFound, "VirtualMachine " + machine.ns + '/' + machine.name +
                                             ": was removed meanwhile; apply it again"};
    const MeshConfig config = spec_->get_mesh_config();
    OSM_TRY(const auto made, certificate::make_request(
                                 control_plane_->proxy_subject(*workload),
                                 {config.certificates.key_type, config.certificates.rsa_bits}));
    certificate_request = made.request_pem;
    files.push_back({std::string(inject::kProxyKeyFile), 0600, true, SecretBytes(made.key.pem())});
  }
  json::object body{{"namespace", machine.ns},
                    {"name", machine.name},
                    {"controller", machine.controller.empty() ? ads_address_ : machine.controller},
                    {"directory", machine.directory},
                    {"request", certificate_request}};
  if (machine.proxy_uid != 0) body["proxy_uid"] = machine.proxy_uid;
  net::Request request = request_of("POST", "/v1/vm/bootstrap");
  request.body = json::serialize(body);
  OSM_TRY(const std::string answered, ask(request));
  OSM_TRY(const json::object answer, parse_json_object(answered, "the answer"));
  for (const json::value& file : list_at(answer, "files"))
    files.push_back({text_at(file, "name"), file.at("mode").to_number<unsigned>(),
                     bool_at(file, "proxys").value_or(false),
                     SecretBytes(text_at(file, "content"))});
  return files;
}

}  // namespace osm::inline v1::c
