#include "inject/pod_patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/numbers.hpp"
#include "inject/interception.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_names.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;
using spec::Field;

constexpr std::size_t kMaxListed = 256;  // ports or networks of one annotation
constexpr std::int64_t kDefaultGraceSeconds =
    30;  // Kubernetes' default for terminationGracePeriodSeconds
constexpr std::int64_t kMaxDrainSeconds = 30;  // Envoy's --drain-time-s

Error refusal(spec::Findings findings) {
  std::string text = "the pod cannot have a sidecar:";
  std::string_view separator = " ";
  for (const Problem& problem : std::move(findings).take({})) {
    text.append(separator).append(problem.field).append(": ").append(problem.cause);
    separator = "; ";
  }
  return {ErrorCode::kInvalidField, text};
}

// Value of a switch: "enabled" and "disabled", and the older forms that OSM accepts.
std::optional<bool> switch_of(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (text == "enabled" || text == "yes" || text == "true") return true;
  if (text == "disabled" || text == "no" || text == "false") return false;
  return std::nullopt;
}

Result<std::optional<bool>> read_switch(std::string_view owner, std::string_view annotation,
                                        const std::string* text) {
  if (text == nullptr) return std::optional<bool>();
  if (const auto value = switch_of(*text)) return std::optional<bool>(value);
  return Error{ErrorCode::kInvalidField,
               fmt::format("{}: annotation {}: '{}' is neither enabled nor disabled: write one of "
                           "enabled, yes, true, disabled, no, false",
                           owner, annotation, spec::shortened(*text, 64))};
}

bool is_of_mesh(const InjectionNamespace& ns, const MeshMembership& mesh) {
  if (ns.name == "kube-system" || ns.name == "kube-public" || ns.name == mesh.osm_namespace)
    return false;
  const std::string* ignored = find_in(ns.labels, std::string(spec::kIgnoreLabel));
  const bool moved = ignored != nullptr && *ignored == spec::kMovedFromOsmV1;
  if (!moved && (ignored != nullptr || mesh.beside_osm_v1)) return false;
  const std::string* monitored_by = find_in(ns.labels, std::string(kMonitoredByLabel));
  return monitored_by != nullptr && *monitored_by == mesh.mesh_name;
}

bool is_windows(const Field& spec) {
  return spec["os"]["name"].text() == "windows" ||
         spec["nodeSelector"]["kubernetes.io/os"].text() == "windows";
}

// Items of an annotation's comma list.
std::vector<std::string> list_of(const Field& annotation) {
  std::vector<std::string> items;
  const std::string text = annotation.text().value_or("");
  if (text.find_first_not_of(" \t") == std::string::npos) return items;
  boost::split(items, text, boost::is_any_of(","));
  for (std::string& item : items) boost::trim_if(item, boost::is_any_of(" \t"));
  if (items.size() > kMaxListed) {
    annotation.refuse(fmt::format("has {} entries, at most {}", items.size(), kMaxListed),
                      ErrorCode::kTooLarge);
    items.clear();
  }
  return items;
}

void add_ports(const Field& annotation, std::vector<Port>& ports) {
  for (const std::string& item : list_of(annotation)) {
    const auto port = port_of(item);
    if (!port) {
      annotation.refuse(fmt::format("'{}' is not a port: list ports from 1 to 65535, like 80,443",
                                    spec::shortened(item, 64)));
      return;
    }
    ports.push_back(*port);
  }
}

// Adds networks or interfaces; check_interception() validates them.
void add_texts(const Field& annotation, std::vector<std::string> InterceptionOptions::*member,
               InterceptionOptions& options) {
  InterceptionOptions alone;
  alone.*member = list_of(annotation);
  if (const Status checked = check_interception(alone); !checked.ok()) {
    annotation.refuse(checked.error().message);
    return;
  }
  const auto& added = alone.*member;
  (options.*member).insert((options.*member).end(), added.begin(), added.end());
}

InterceptionOptions interception_of(const TrafficExclusions& mesh, const Field& annotations) {
  InterceptionOptions options{.inbound_excluded = mesh.inbound_ports,
                              .outbound_excluded = mesh.outbound_ports,
                              .outbound_excluded_networks = mesh.outbound_ip_ranges,
                              .outbound_included_networks = mesh.outbound_included_ip_ranges,
                              .excluded_interfaces = mesh.network_interfaces,
                              // The mesh is IPv4: applications fall back to it at once.
                              .mesh_networks_v6 = {"::/0"}};
  add_ports(annotations[kInboundPortsAnnotation], options.inbound_excluded);
  add_ports(annotations[kOutboundPortsAnnotation], options.outbound_excluded);
  add_texts(annotations[kOutboundRangesAnnotation],
            &InterceptionOptions::outbound_excluded_networks, options);
  add_texts(annotations[kIncludedRangesAnnotation],
            &InterceptionOptions::outbound_included_networks, options);
  add_texts(annotations[kInterfacesAnnotation], &InterceptionOptions::excluded_interfaces, options);
  return options;
}

// Patches the pod of one admission request.
class Patcher {
 public:
  explicit Patcher(PodPatchInput input) : input_(std::move(input)), root_(std::move(input_.pod)) {}

  Result<PatchedPod> patch() {
    OSM_TRY(const ContainerImages images, choose_images());
    const Field spec = root()["spec"];
    if (!spec.required_map() || !root()["metadata"].required_map())
      return refusal(std::move(findings_));
    check_shape();
    if (!findings_.valid()) return refusal(std::move(findings_));
    remove_sidecar();
    restore_probes(pod(), findings_);
    check_containers();
    warn_of_gaps();
    const InterceptionOptions interception =
        interception_of(input_.config.injection.exclusions, root()["metadata"]["annotations"]);
    const std::string account = spec["serviceAccountName"].text().value_or("");
    PatchedPod result;
    result.probes = rewrite_probes(pod(), input_.hook_key, findings_);
    if (!findings_.valid()) return refusal(std::move(findings_));
    if (Status checked = check_interception(interception); !checked.ok())
      return checked.error().with_context("MeshConfig");
    warn_of_hooks(result.probes);
    if (const std::int64_t seconds = is_native() ? 0 : drain_seconds(); seconds > 0)
      result.probes.push_back(sidecar_drain(seconds, input_.hook_key));
    add_sidecar(images, interception, result.probes);
    stamp();
    result.account = {input_.ns, account.empty() ? "default" : account};
    result.pod = std::move(pod());
    result.warnings = std::move(warnings_);
    return result;
  }

 private:
  Field root() { return {&root_, "", findings_}; }
  json::object& pod() { return root_.as_object(); }

  Result<ContainerImages> choose_images() const {
    ContainerImages images = input_.images;
    const SidecarConfig& config = input_.config.injection.sidecar;
    if (!config.envoy_image.empty()) images.envoy = config.envoy_image;
    if (!config.init_container_image.empty()) images.init_container = config.init_container_image;
    const auto missing = [](std::string_view what, std::string_view field, std::string_view flag) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("no image for the {}: set {} in MeshConfig, or {} of osm-injector",
                               what, field, flag)};
    };
    if (images.envoy.empty()) return missing("sidecar", "spec.sidecar.envoyImage", "--envoy-image");
    if (images.init_container.empty())
      return missing("init container", "spec.sidecar.initContainerImage", "--init-container-image");
    return images;
  }

  // Checks that every accessed value has the right type, or is absent.
  void check_shape() {
    for (const char* list : {"containers", "initContainers", "volumes"})
      for (const Field& item : root()["spec"][list].list())
        if (item.required_map()) static_cast<void>(item["name"].required_text());
    for (const char* map : {"labels", "annotations"}) root()["metadata"][map].text_map();
  }

  // True for the sidecar's containers, by name, whoever added them.
  static bool is_sidecars(const json::value& container) {
    const std::string name = text_at(container, "name");
    if (name == kInitContainer) return true;
    if (name != kEnvoyContainer) return false;
    const json::array& mounts = v1::list_at(container, "volumeMounts");
    return std::ranges::any_of(mounts, [](const json::value& mount) {
      return text_at(mount, "name") == kBootstrapVolume;
    });
  }

  template <class Remove>
  void remove_from(std::string_view list, const Remove& remove) {
    json::value* items = find(pod(), "spec", list);
    if (items == nullptr || !items->is_array()) return;
    json::array kept;
    for (json::value& item : items->as_array())
      if (!remove(item)) kept.push_back(std::move(item));
    items->as_array() = std::move(kept);
  }

  void remove_sidecar() {
    remove_from("containers", is_sidecars);
    remove_from("initContainers", is_sidecars);
    remove_from("volumes", [](const json::value& volume) {
      return volume.at("name").as_string() == kBootstrapVolume;
    });
  }

  void check_containers() {
    for (const char* list : {"initContainers", "containers"}) {
      for (const Field& container : root()["spec"][list].list()) {
        if (container["name"].text() == kEnvoyContainer)
          container["name"].refuse("is the sidecar's: give the container another name");
        for (const Field& port : container["ports"].list()) check_port(port);
      }
    }
  }

  static void check_port(const Field& port) {
    if (port["protocol"].text().value_or("TCP") != "TCP") return;
    const auto declared = port["containerPort"].integer(1, 65535);
    if (declared && std::ranges::find(kSidecarPorts, Port{static_cast<std::uint16_t>(*declared)}) !=
                        kSidecarPorts.end())
      port["containerPort"].refuse(
          fmt::format("{} is the sidecar's: let the container listen elsewhere", *declared));
  }

  bool is_native() {
    if (input_.native_sidecars) return true;
    // An API server that stores such containers supports them.
    const std::vector<Field> containers = root()["spec"]["initContainers"].list();
    return std::ranges::any_of(containers, [](const Field& container) {
      return container["restartPolicy"].text() == "Always";
    });
  }

  void warn_of_gaps() {
    const Field spec = root()["spec"];
    bool bypasses = spec["securityContext"]["runAsUser"].integer(0, INT64_MAX) == kProxyUid;
    for (const Field& container : spec["containers"].list())
      bypasses |= container["securityContext"]["runAsUser"].integer(0, INT64_MAX) == kProxyUid;
    if (bypasses) {
      warnings_.push_back(fmt::format(
          "what runs as user {} bypasses the mesh, because that is the sidecar's: use another",
          kProxyUid));
    }
    if (!is_native() && !spec["initContainers"].list().empty()) {
      warnings_.emplace_back(
          "init containers run before the sidecar, so their connections are refused: exclude "
          "their ports, or use Kubernetes 1.29 or newer");
    }
  }

  // kubelet stops a sidecar together with all other containers. The sidecar stays for half of the
  // pod's grace period, to answer running requests and not to refuse new ones.
  std::int64_t drain_seconds() {
    const auto grace = root()["spec"]["terminationGracePeriodSeconds"].integer(0, INT64_MAX);
    return std::min(grace.value_or(kDefaultGraceSeconds) / 2, kMaxDrainSeconds);
  }

  void warn_of_hooks(const std::vector<Probe>& probes) {
    if (is_native()) return;
    for (const Probe& probe : probes) {
      if (probe.kind != ProbeKind::kPostStart) continue;
      warnings_.push_back(
          fmt::format("container {}: its postStart hook is sent before the sidecar is there, so "
                      "the container is restarted once: use exec, or Kubernetes 1.29 or newer",
                      spec::shortened(probe.container, 64)));
    }
  }

  void add_sidecar(const ContainerImages& images, const InterceptionOptions& interception,
                   const std::vector<Probe>& probes) {
    const bool native = is_native();
    const bool liveness = std::ranges::any_of(
        probes, [](const Probe& probe) { return probe.kind == ProbeKind::kLiveness; });
    const SidecarConfig& config = input_.config.injection.sidecar;
    json::array& init = list_at(pod(), "spec", "initContainers");
    json::object envoy = envoy_container(images, config, native, liveness);
    for (const Probe& probe : probes)
      if (probe.method == ProbeMethod::kWait) envoy["lifecycle"] = sidecar_lifecycle(probe);
    init.insert(init.begin(), init_container(images, config, interception));
    if (native) {
      init.insert(init.begin() + 1, std::move(envoy));
    } else {
      // Append it last: kubectl's commands use the first container by default.
      list_at(pod(), "spec", "containers").push_back(std::move(envoy));
    }
    list_at(pod(), "spec", "volumes")
        .push_back({{"name", kBootstrapVolume},
                    {"secret", {{"secretName", bootstrap_secret_name(input_.proxy_id)}}}});
  }

  void stamp() {
    map_at(pod(), "metadata", "labels")[kProxyUuidLabel] = input_.proxy_id.str();
    if (input_.metrics) announce_metrics();
  }

  // Prometheus reads one port per pod from annotations, and the application's own comes first. The
  // port of the sidecar has a name that a scrape job can look for.
  void announce_metrics() {
    const std::pair<std::string_view, std::string> scraped[] = {
        {"prometheus.io/scrape", "true"},
        {"prometheus.io/port", std::to_string(number(kPrometheusPort))},
        {"prometheus.io/path", "/stats/prometheus"}};
    json::object& annotations = map_at(pod(), "metadata", "annotations");
    const auto same = [&](const auto& entry) {
      const json::value* own = annotations.if_contains(entry.first);
      return own != nullptr && *own == json::value(entry.second);
    };
    if (std::ranges::all_of(scraped, same)) return;
    for (const auto& [name, value] : annotations) {
      if (!std::string_view(name).starts_with("prometheus.io/")) continue;
      warnings_.push_back(
          fmt::format("annotation {} is the application's, so no annotation leads to the sidecar's "
                      "metrics: let Prometheus find its port by the name {}",
                      std::string_view(name), kMetricsPort));
      return;
    }
    for (const auto& [name, value] : scraped) annotations[name] = value;
  }

  PodPatchInput input_;
  json::value root_;
  spec::Findings findings_;
  std::vector<std::string> warnings_;
};

}  // namespace

Result<bool> wants_sidecar(const json::object& pod, const InjectionNamespace& ns,
                           const MeshMembership& mesh) {
  spec::Findings findings;
  const Field spec(pod.if_contains("spec"), "spec", findings);
  if (spec["hostNetwork"].boolean().value_or(false) || is_windows(spec)) return false;
  if (!is_of_mesh(ns, mesh)) return false;
  const Field metadata(pod.if_contains("metadata"), "metadata", findings);
  const auto own = metadata["annotations"][kInjectionAnnotation].text();
  OSM_TRY(const auto of_pod, read_switch("the pod", kInjectionAnnotation, own ? &*own : nullptr));
  OSM_TRY(const auto of_namespace,
          read_switch("namespace " + ns.name, kInjectionAnnotation,
                      find_in(ns.annotations, std::string(kInjectionAnnotation))));
  return of_pod.value_or(of_namespace.value_or(false));
}

Result<bool> wants_metrics(const InjectionNamespace& ns) {
  OSM_TRY(const auto metrics,
          read_switch("namespace " + ns.name, kMetricsAnnotation,
                      find_in(ns.annotations, std::string(kMetricsAnnotation))));
  return metrics.value_or(false);
}

Result<PatchedPod> patch_pod(PodPatchInput input) { return Patcher(std::move(input)).patch(); }

}  // namespace osm::inline v1::inject
