#include "inject/pod_containers.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "inject/pod_interception.hpp"
#include "inject/pod_names.hpp"
#include "inject/probes.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kCheckUid = kProxyUid + 1;  // not the proxy's, which bypasses interception

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

// PodSecurity `restricted` asks this of a container.
json::object security_as(std::uint32_t user) {
  return {{"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", {"ALL"}}}},
          {"privileged", false},
          {"readOnlyRootFilesystem", true},
          {"runAsNonRoot", true},
          {"runAsUser", std::int64_t{user}},
          {"runAsGroup", std::int64_t{user}},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
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

json::object check_container(const ContainerImages& images, const SidecarConfig& config) {
  json::object container{{"name", kInitContainer},
                         {"image", images.init_container},
                         {"imagePullPolicy", images.pull_policy},
                         {"command", {"osm-cni"}},
                         {"args", {"check"}},
                         {"securityContext", security_as(kCheckUid)}};
  set_resources(container, config);
  return container;
}

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
      {"securityContext", security_as(kProxyUid)},
      {"volumeMounts",
       {{{"name", kBootstrapVolume}, {"mountPath", kBootstrapDirectory}, {"readOnly", true}}}}};
  if (native) container["restartPolicy"] = "Always";
  set_resources(container, config);
  return container;
}

}  // namespace osm::inline v1::inject
