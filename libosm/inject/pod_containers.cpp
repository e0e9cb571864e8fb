#include "inject/pod_containers.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "inject/interception.hpp"
#include "inject/pod_names.hpp"
#include "inject/probes.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

std::string jump_of_pod(std::string_view, const BuiltInJump& jump) {
  return fmt::format("-I {} 1 -p tcp -j {}", jump.built_in, jump.ours);
}

// Shell lines that remove the jumps: an init container may run a second time in the same sandbox.
template <std::size_t N>
std::string undo_jumps(std::string_view indent, std::string_view command,
                       const std::array<BuiltInJump, N>& jumps) {
  std::string lines;
  for (const BuiltInJump& jump : jumps)
    lines +=
        fmt::format("{}undo {} {} {} {}\n", indent, command, jump.table, jump.built_in, jump.ours);
  return lines;
}

std::string init_script(const InterceptionOptions& options, LocalProxyMode mode) {
  constexpr std::string_view kCheckAddress = R"sh(case "$POD_IP" in
  "" | *[!0-9.]*) fail "MeshConfig's localProxyMode PodIP needs a pod with an IPv4 address, not '$POD_IP'" ;;
esac
)sh";
  const bool pod_ip = mode == LocalProxyMode::kPodIp;
  const InterceptionRules rules = interception_rules(options, jump_of_pod, pod_ip ? "$POD_IP" : "");
  // The shell expands here-documents; the rules contain no '$' except that of POD_IP.
  return fmt::format(R"sh(set -eu
fail() {{ echo "osm-init: $*" >&2; exit 1; }}
undo() {{ # COMMAND TABLE BUILT-IN OURS
  printf '*%s\n-D %s -p tcp -j %s\nCOMMIT\n' "$2" "$3" "$4" | "$1"-restore -w --noflush 2>/dev/null || :
}}
{0}{1}iptables-restore -w --noflush <<RULES
{2}RULES
# IPv6 is not redirected. What the mesh guards must not be reachable around it.
if [ -e /proc/net/if_inet6 ]; then
{3}  ip6tables-restore -w --noflush <<RULES || case "${{POD_IPS-}}" in
{4}RULES
    *:*) fail "the pod has an IPv6 address, and ip6tables does not work here: load the node's ip6table_filter" ;;
    *) echo "osm-init: ip6tables does not work here, and the pod has no IPv6 address" >&2 ;;
  esac
fi
)sh",
                     pod_ip ? kCheckAddress : "", undo_jumps("", "iptables", kJumpsV4), rules.v4,
                     undo_jumps("  ", "ip6tables", kJumpsV6), rules.v6);
}

json::object from_field(std::string_view name, std::string_view path) {
  return {{"name", name},
          {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", path}}}}}};
}

json::object quantities(const std::map<std::string, std::string>& resources) {
  json::object map;
  for (const auto& [name, quantity] : resources) map[name] = quantity;
  return map;
}

// Equal resources for both containers: then the init container does not raise the pod's request,
// and namespaces with quotas on limits accept the pod.
void set_resources(json::object& container, const SidecarConfig& config) {
  json::object resources;
  if (!config.limits.empty()) resources["limits"] = quantities(config.limits);
  if (!config.requests.empty()) resources["requests"] = quantities(config.requests);
  if (!resources.empty()) container["resources"] = std::move(resources);
}

json::object port(std::string_view name, Port port_number) {
  return {
      {"name", name}, {"containerPort", std::int64_t{number(port_number)}}, {"protocol", "TCP"}};
}

json::object probe(ProbeKind kind, std::int64_t period_s, std::int64_t failures) {
  json::object fields = sidecar_probe(kind);
  fields["periodSeconds"] = period_s;
  fields["timeoutSeconds"] = 2;
  fields["successThreshold"] = 1;
  fields["failureThreshold"] = failures;
  return fields;
}

}  // namespace

json::object init_container(const ContainerImages& images, const SidecarConfig& config,
                            const InterceptionOptions& interception) {
  json::object security{{"privileged", config.privileged_init_container},
                        {"runAsNonRoot", false},
                        {"runAsUser", 0},
                        {"runAsGroup", 0},
                        {"capabilities", {{"add", {"NET_ADMIN", "NET_RAW"}}, {"drop", {"ALL"}}}}};
  if (!config.privileged_init_container) security["allowPrivilegeEscalation"] = false;
  json::object container{
      {"name", kInitContainer},
      {"image", images.init_container},
      {"imagePullPolicy", images.pull_policy},
      {"command", {"/bin/sh"}},
      {"args", {"-c", init_script(interception, config.local_proxy_mode)}},
      {"env", {from_field("POD_IP", "status.podIP"), from_field("POD_IPS", "status.podIPs")}},
      {"securityContext", std::move(security)}};
  set_resources(container, config);
  return container;
}

json::object envoy_container(const ContainerImages& images, const SidecarConfig& config,
                             bool native, bool has_liveness_probes) {
  json::array ports{port("proxy-admin", kAdminPort), port("proxy-inbound", kInboundPort),
                    port(kMetricsPort, kPrometheusPort)};
  if (has_liveness_probes) ports.push_back(port("liveness-port", probe_port(ProbeKind::kLiveness)));
  ports.push_back(port("readiness-port", probe_port(ProbeKind::kReadiness)));
  ports.push_back(port("startup-port", probe_port(ProbeKind::kStartup)));
  json::object container{
      {"name", kEnvoyContainer},
      {"image", images.envoy},
      {"imagePullPolicy", images.pull_policy},
      {"command", {"envoy"}},
      // Two workers are enough for a sidecar; Envoy's default is one per CPU of the node.
      {"args",
       {"--log-level", config.log_level, "--config-path",
        std::string(kBootstrapDirectory) + "/bootstrap.yaml", "--concurrency", "2",
        "--disable-hot-restart", "--drain-time-s", "30", "--drain-strategy", "immediate"}},
      {"env",
       {from_field("POD_UID", "metadata.uid"), from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"), from_field("POD_IP", "status.podIP"),
        from_field("SERVICE_ACCOUNT", "spec.serviceAccountName")}},
      {"ports", std::move(ports)},
      // The control plane has two minutes to answer; then kubelet restarts the sidecar.
      {"startupProbe", probe(ProbeKind::kStartup, 1, 120)},
      {"readinessProbe", probe(ProbeKind::kReadiness, 5, 3)},
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"capabilities", {{"drop", {"ALL"}}}},
        {"privileged", false},
        {"readOnlyRootFilesystem", true},
        {"runAsNonRoot", true},
        {"runAsUser", std::int64_t{kProxyUid}},
        {"runAsGroup", std::int64_t{kProxyUid}}}},
      {"volumeMounts",
       {{{"name", kBootstrapVolume}, {"mountPath", kBootstrapDirectory}, {"readOnly", true}}}}};
  if (native) container["restartPolicy"] = "Always";
  set_resources(container, config);
  return container;
}

}  // namespace osm::inline v1::inject
