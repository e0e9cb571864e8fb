#include "osm/inject/vm_bootstrap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "inject/envoy_bootstrap.hpp"
#include "inject/refusal.hpp"
#include "model/ip_address.hpp"
#include "model/machine_names.hpp"

namespace osm::inline v1::inject {
namespace {

// The directory is written in YAML double quotes, in a comment and in shell quotes; refuses it if
// that is impossible.
Status check_directory(const std::string& directory) {
  if (directory.empty() || directory.front() != '/') {
    return invalid("directory", fmt::format("'{}' is not an absolute path", directory));
  }
  const bool plain = std::none_of(directory.begin(), directory.end(), [](unsigned char c) {
    return c < 0x20 || c == 0x7f || c == '\'' || c == '"' || c == '\\';
  });
  if (!plain)
    return invalid("directory", "must not hold quotes, backslashes or control characters");
  return {};
}

Status check(const VmBootstrapInput& input) {
  OSM_TRY(check_directory(input.directory));
  if (!is_dns_label(input.workload.ns))
    return invalid("workload.namespace", fmt::format("'{}' is no name", input.workload.ns));
  if (!is_dns_subdomain(input.workload.name))
    return invalid("workload.name", fmt::format("'{}' is no name", input.workload.name));
  if (!is_dns_name(input.cluster_domain))
    return invalid("cluster_domain", fmt::format("'{}' is no DNS name", input.cluster_domain));
  // MeshSpec guarantees this; a host that lists Services itself may not.
  for (const Service& service : input.services) {
    const bool named = is_dns_label(service.name.ns) && is_dns_label(service.name.name);
    const bool addressed = service.cluster_ip.empty() || model::is_ipv4(service.cluster_ip) ||
                           model::is_ipv6(service.cluster_ip);
    if (!named || !addressed) {
      return invalid("services",
                     fmt::format("'{}' at '{}' is no Service: give it a DNS name and an "
                                 "IP address",
                                 service.name.str(), service.cluster_ip));
    }
  }
  return {};
}

// Host names of the mesh, as this machine resolves them.
std::string hosts(const VmBootstrapInput& input) {
  std::vector<Service> services = input.services;
  std::sort(services.begin(), services.end(),
            [](const Service& a, const Service& b) { return a.name < b.name; });
  std::string text =
      "# Begin of the names of the mesh, written by `osm vm bootstrap`: append to /etc/hosts.\n"
      "127.0.0.1 localhost\n"
      "::1 localhost\n";
  for (const Service& service : services) {
    if (service.headless || service.cluster_ip.empty()) continue;
    text += service.cluster_ip;
    for (const std::string& name :
         model::machine_names(service.name, input.workload.ns, input.cluster_domain))
      text += ' ' + name;
    text += '\n';
  }
  return text.append(kEndOfNames);
}

InterceptionOptions completed_interception(const VmBootstrapInput& input,
                                           const HostPort& controller) {
  InterceptionOptions options = input.interception;
  if (model::is_ipv4(controller.host)) {
    options.controller = {controller.host, Port{controller.port}};
  }
  for (const Service& service : input.services) {
    if (model::is_ipv6(service.cluster_ip)) {
      options.mesh_networks_v6.push_back(service.cluster_ip);
    }
  }
  return options;
}

std::string header(const VmBootstrapInput& input) {
  return fmt::format(
      R"(# Envoy's bootstrap for {0}, written by `osm vm bootstrap`. As root, in this order:
#
#   '{1}/intercept.sh'
#   setpriv --reuid={2} --regid={2} --clear-groups envoy -c '{1}/bootstrap.yaml' \
#     --disable-hot-restart --drain-time-s 30 --drain-strategy immediate
#
# Hot restart is off because two Envoys of one machine would share its memory. The drain time is how
# long open TCP connections outlive a policy that ends them; HTTP requests are judged one by one.
)",
      input.workload.str(), input.directory, input.interception.proxy_uid);
}

}  // namespace

Result<std::vector<BootstrapFile>> vm_bootstrap(const VmBootstrapInput& input) {
  OSM_TRY(check(input));
  OSM_TRY(const HostPort controller, parse_controller(input.controller));
  OSM_TRY(std::string intercept, interception_script(completed_interception(input, controller)));
  OSM_TRY(auto files, proxy_files({.header = header(input),
                                   .certificate = input.certificate,
                                   .trust_bundle_pem = input.trust_bundle_pem,
                                   .account = input.account,
                                   .trust_domain = input.trust_domain,
                                   .controller = controller,
                                   .directory = input.directory,
                                   .xds = input.xds}));
  files.push_back({"hosts", 0644, false, hosts(input)});
  files.push_back({"intercept.sh", 0700, false, std::move(intercept)});
  return files;
}

}  // namespace osm::inline v1::inject
