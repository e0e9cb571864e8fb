#include "inject/pod_patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/maps.hpp"
#include "base/numbers.hpp"
#include "inject/exclusions.hpp"
#include "inject/interception.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_interception.hpp"
#include "inject/pod_names.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;
using spec::Field;

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

// Why no pod with this spec can have a sidecar; empty: it can.
std::string obstacle_to_sidecar(const json::object& pod) {
  spec::Findings findings;
  const Field spec(pod.if_contains("spec"), "spec", findings);
  if (spec["hostNetwork"].boolean().value_or(false))
    return "the pod gets no sidecar and is outside of the mesh: spec.hostNetwork is true, and "
           "interception would take the traffic of the whole node";
  if (spec["os"]["name"].text() == "windows" ||
      spec["nodeSelector"]["kubernetes.io/os"].text() == "windows")
    return "the pod gets no sidecar and is outside of the mesh: it is for Windows, and "
           "interception needs Linux";
  return {};
}

// True if the annotations of pod and namespace ask for a sidecar.
Result<bool> is_selected(const json::object& pod, const InjectionNamespace& ns) {
  spec::Findings findings;
  const Field metadata(pod.if_contains("metadata"), "metadata", findings);
  const auto own = metadata["annotations"][kInjectionAnnotation].text();
  OSM_TRY(const auto of_pod, read_switch("the pod", kInjectionAnnotation, own ? &*own : nullptr));
  OSM_TRY(const auto of_namespace,
          read_switch("namespace " + ns.name, kInjectionAnnotation,
                      find_in(ns.annotations, std::string(kInjectionAnnotation))));
  return of_pod.value_or(of_namespace.value_or(false));
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
    const auto native = root()["metadata"]["annotations"][kNativeSidecarAnnotation].text();
    OSM_TRY(own_native_,
            read_switch("the pod", kNativeSidecarAnnotation, native ? &*native : nullptr));
    remove_sidecar();
    restore_probes(pod(), findings_);
    check_containers();
    warn_of_gaps();
    InterceptionOptions interception{.inbound_excluded = {},
                                     // The mesh is IPv4: applications fall back to it at once.
                                     .mesh_networks_v6 = {"::/0"}};
    add_exclusions(input_.config.injection.exclusions, interception);
    add_exclusions(root()["metadata"]["annotations"], interception);
    const std::string account = account_of(spec);
    PatchedPod result;
    result.probes = rewrite_probes(pod(), input_.hook_key, findings_);
    if (!findings_.valid()) return refusal(std::move(findings_));
    if (Status checked = check_interception(interception); !checked.ok())
      return checked.error().with_context("MeshConfig");
    warn_of_hooks(result.probes);
    if (const std::int64_t seconds = is_native() ? 0 : drain_seconds(); seconds > 0)
      result.probes.push_back(sidecar_drain(seconds, input_.hook_key));
    add_sidecar(images, interception, result.probes);
    if (input_.cni)
      map_at(pod(), "metadata", "annotations")[kInterceptionAnnotation] =
          interception_annotation(interception, input_.config.injection.sidecar.local_proxy_mode);
    stamp();
    result.account = {input_.ns, account};
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

  // The pod's account, which becomes a part of certificates' names.
  std::string account_of(const Field& spec) {
    const Field field = spec["serviceAccountName"];
    std::string account = field.text().value_or("");
    if (account.empty()) return "default";
    if (is_dns_label(account)) return account;
    const json::object& metadata = v1::map_at(pod(), "metadata");
    const std::string name = text_at(metadata, "name");
    field.refuse(fmt::format(
        "pod {}/{} runs as account '{}', {}: use another account, or annotate the pod {}: disabled",
        input_.ns,
        spec::shortened(name.empty() ? text_at(metadata, "generateName") + '*' : name, 64),
        spec::shortened(account, 64),
        account.find('.') == std::string::npos
            ? "whose name is no DNS label and so no identity of the mesh"
            : "whose name has a dot and so is no identity of the mesh",
        kInjectionAnnotation));
    return account;
  }

  // Checks that every accessed value has the right type, or is absent.
  void check_shape() {
    for (const char* list : {"containers", "initContainers", "volumes"})
      for (const Field& item : root()["spec"][list].list())
        if (item.required_map()) static_cast<void>(item["name"].required_text());
    for (const char* map : {"labels", "annotations"}) root()["metadata"][map].text_map();
  }

  // True for the sidecar's containers, by name and work, whoever added them. A container of the
  // application with such a name is refused later.
  static bool is_sidecars(const json::value& container) {
    const std::string name = text_at(container, "name");
    if (name == kInitContainer) return intercepts(container);
    if (name != kEnvoyContainer) return false;
    const json::array& mounts = v1::list_at(container, "volumeMounts");
    return std::ranges::any_of(mounts, [](const json::value& mount) {
      return text_at(mount, "name") == kBootstrapVolume;
    });
  }

  // True for init_container() and check_container(), and for the one of OSM v1.2.
  static bool intercepts(const json::value& container) {
    const auto has = [&](const char* list, std::string_view text) {
      return std::ranges::any_of(v1::list_at(container, list), [&](const json::value& word) {
        return word.is_string() && word.get_string().find(text) != json::string::npos;
      });
    };
    return has("args", "OSM_PROXY_") || has("command", "osm-cni");
  }

  static bool is_sidecars_volume(const json::value& volume) {
    return text_at(volume, "name") == kBootstrapVolume &&
           text_at(v1::map_at(volume, "secret"), "secretName").starts_with(kBootstrapSecretPrefix);
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
    remove_from("volumes", is_sidecars_volume);
    if (json::value* annotations = find(pod(), "metadata", "annotations"))
      if (annotations->is_object()) annotations->as_object().erase(kInterceptionAnnotation);
  }

  void check_containers() {
    for (const char* list : {"initContainers", "containers"}) {
      for (const Field& container : root()["spec"][list].list()) {
        const auto name = container["name"].text();
        if (name == kEnvoyContainer || name == kInitContainer)
          container["name"].refuse("is the sidecar's: give the container another name");
        for (const Field& port : container["ports"].list()) check_port(port);
      }
    }
    for (const Field& volume : root()["spec"]["volumes"].list())
      if (volume["name"].text() == kBootstrapVolume)
        volume["name"].refuse("is the sidecar's: give the volume another name");
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
    if (own_native_) return *own_native_;
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
          "their ports, or use nodes of Kubernetes 1.29 or newer");
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
      warnings_.push_back(fmt::format(
          "container {}: its postStart hook is sent before the sidecar is there, so "
          "the container is restarted once: use exec, or nodes of Kubernetes 1.29 or newer",
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
    init.insert(init.begin(), input_.cni ? check_container(images, config)
                                         : init_container(images, config, interception));
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
  std::optional<bool> own_native_;  // the pod's annotation
};

}  // namespace

Result<SidecarDecision> wants_sidecar(const json::object& pod, const InjectionNamespace& ns,
                                      const MeshMembership& mesh) {
  if (!is_of_mesh(ns, mesh)) return SidecarDecision{};
  const std::string obstacle = obstacle_to_sidecar(pod);
  const Result<bool> selected = is_selected(pod, ns);
  if (!obstacle.empty())
    return SidecarDecision{false, selected.value_or(false) ? obstacle : std::string()};
  if (!selected.ok()) return selected.error();
  return SidecarDecision{*selected};
}

Result<bool> wants_metrics(const InjectionNamespace& ns) {
  OSM_TRY(const auto metrics,
          read_switch("namespace " + ns.name, kMetricsAnnotation,
                      find_in(ns.annotations, std::string(kMetricsAnnotation))));
  return metrics.value_or(false);
}

Result<PatchedPod> patch_pod(PodPatchInput input) { return Patcher(std::move(input)).patch(); }

}  // namespace osm::inline v1::inject
