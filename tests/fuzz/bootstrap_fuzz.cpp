// Names of an operator, a mesh and a machine's owner → the files of a machine: whatever the names
// hold, the script a root shell runs and the YAML Envoy reads keep their shape. Names stand only
// where names belong, and nothing in them is syntax.
//
//   input: lines: controller, directory, workload namespace and name, account, trust domain, common
//   name, a service's name and address; then options of the interception.
#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "spec/yaml.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;
using inject::BootstrapFile;
using inject::InterceptionOptions;
using inject::VmBootstrapInput;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

bool only(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == std::string_view::npos;
}

constexpr std::string_view kRuleCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -_.,:/!";

// The lines that iptables-restore reads are one by one harmless to the shell that expands the
// here-document; every other line is the same whatever was asked for.
std::string frame_of(const std::string& script) {
  std::string frame;
  for (const std::string_view line : lines_of(script)) {
    if (line.starts_with("-A ")) {
      require(only(line, kRuleCharacters), "a rule holds nothing that a shell expands", line);
    } else {
      frame.append(line).push_back('\n');
    }
  }
  return frame;
}

void check_script(const std::string& script) {
  static const std::string plain = frame_of(inject::interception_script({}).value_or(""));
  require(frame_of(script) == plain, "a script differs in its rules only", script);
}

// A document's keys and types, with what depends on names left out.
void shape_of(const json::value& value, std::string& shape) {
  if (const auto* map = value.if_object()) {
    shape += '{';
    for (const auto& [key, item] : *map) {
      shape.append(key).push_back(':');
      shape_of(item, shape);
    }
    shape += '}';
  } else if (const auto* list = value.if_array()) {
    shape += '[';
    for (const json::value& item : *list) shape_of(item, shape);
    shape += ']';
  } else {
    shape += "x ";
  }
}

std::string shape_of(const std::string& yaml) {
  std::string shape;
  for (const spec::YamlResult& result : spec::parse_yaml(yaml)) {
    const auto* document = std::get_if<spec::YamlDocument>(&result);
    // A directory need not be UTF-8; Envoy would say so.
    if (document == nullptr) return "";
    shape_of(document->value, shape);
    shape += ';';
  }
  return shape;
}

const std::string& content(const std::vector<BootstrapFile>& files, std::string_view name) {
  for (const BootstrapFile& file : files)
    if (file.name == name) return file.content;
  require(false, "every file is there", name);
  std::abort();
}

const std::string kRoots = "roots\n";

certificate::Certificate certificate_for(const std::string& common_name) {
  certificate::Certificate certificate;
  certificate.subject.common_name = CommonName(common_name);
  certificate.chain_pem = "chain\n";
  certificate.private_key = certificate::PrivateKey("key\n");
  return certificate;
}

const std::vector<BootstrapFile>& plain_files() {
  static const certificate::Certificate certificate = certificate_for("a.b.c");
  static const auto files = inject::vm_bootstrap({.workload = {"b", "vm"},
                                                  .account = {"b", "server"},
                                                  .controller = "10.0.0.1:15128",
                                                  .directory = "/etc/osm",
                                                  .certificate = certificate,
                                                  .trust_bundle_pem = kRoots});
  require(files.ok(), "a plain machine can be bootstrapped");
  return *files;
}

void check_files(const std::vector<BootstrapFile>& files, const VmBootstrapInput& input) {
  check_script(content(files, "intercept.sh"));
  for (const char* name : {"bootstrap.yaml", "tls_certificate_sds_secret.yaml",
                           "validation_context_sds_secret.yaml"}) {
    const std::string shape = shape_of(content(files, name));
    require(shape.empty() || shape == shape_of(content(plain_files(), name)),
            "names do not change the shape of a file", content(files, name));
  }
  const std::string& hosts = content(files, "hosts");
  std::size_t plain = lines_of(content(plain_files(), "hosts")).size();
  for (const Service& service : input.services)
    if (!service.headless && !service.cluster_ip.empty()) ++plain;
  require(lines_of(hosts).size() == plain, "hosts has one line per service", hosts);
  for (const BootstrapFile& file : files)
    require(file.name != inject::kProxyKeyFile, "the key's file is its maker's");
}

std::vector<std::string> networks_from(Choices& choices) {
  std::vector<std::string> networks;
  for (std::size_t count = choices.below(4); count > 0; --count)
    networks.push_back(choices.line(60));
  return networks;
}

std::vector<Port> ports_from(Choices& choices) {
  std::vector<Port> ports;
  for (std::size_t count = choices.below(40); count > 0; --count)
    ports.push_back(Port{static_cast<std::uint16_t>(choices.below(65536))});
  return ports;
}

void run(Choices choices) {
  const std::string controller = choices.line();
  const std::string directory = choices.line();
  const WorkloadName workload{choices.line(), choices.line()};
  const std::string account = choices.line();
  const TrustDomain domain{choices.line()};
  const certificate::Certificate certificate = certificate_for(choices.line());
  Service service;
  service.name = {workload.ns, choices.line()};
  service.cluster_ip = choices.line();

  InterceptionOptions options;
  options.inbound_excluded_networks = networks_from(choices);
  options.outbound_excluded_networks = networks_from(choices);
  options.outbound_included_networks = networks_from(choices);
  options.mesh_networks_v6 = networks_from(choices);
  options.inbound_excluded = ports_from(choices);
  options.outbound_excluded = ports_from(choices);
  options.proxy_uid = static_cast<std::uint32_t>(choices.below(3)) * 750;
  options.controller = {choices.line(), Port{static_cast<std::uint16_t>(choices.below(65536))}};
  if (const auto script = inject::interception_script(options); script.ok()) check_script(*script);

  const VmBootstrapInput input{.workload = workload,
                               .account = {workload.ns, account},
                               .trust_domain = domain,
                               .controller = controller,
                               .directory = directory,
                               .certificate = certificate,
                               .trust_bundle_pem = kRoots,
                               .services = {service},
                               .interception = options};
  const auto files = inject::vm_bootstrap(input);
  if (files.ok()) {
    check_files(*files, input);
  } else {
    require(files.error().code == ErrorCode::kInvalidArgument, "a refusal says its kind");
  }
}

const bool kAdded = add("bootstrap", [](std::string_view input) { run(Choices(input)); });

}  // namespace
