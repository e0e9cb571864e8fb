#include "inject/probes.hpp"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_names.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;
using spec::Field;

struct KindInfo {
  ProbeKind kind;
  std::string_view field;
  std::string_view word;
  std::string_view noun;
  std::uint16_t port;
};
constexpr std::array kKinds{
    KindInfo{ProbeKind::kLiveness, "livenessProbe", "liveness", "probe", 15901},
    KindInfo{ProbeKind::kReadiness, "readinessProbe", "readiness", "probe", 15902},
    KindInfo{ProbeKind::kStartup, "startupProbe", "startup", "probe", 15903},
    KindInfo{ProbeKind::kPostStart, "postStart", "post-start", "hook", 15904},
    KindInfo{ProbeKind::kPreStop, "preStop", "pre-stop", "hook", 15904},
};

const KindInfo& info_of(ProbeKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

// kubelet's handlers that are rewritten; exec and sleep are not.
constexpr std::array<std::string_view, 3> kHandlers{"httpGet", "tcpSocket", "grpc"};

// Visits every probe and hook of the containers that may have some.
template <class Visit>
void each_probe(json::object& pod, spec::Findings& findings, const Visit& visit) {
  json::value* spec = pod.if_contains("spec");
  if (spec == nullptr || !spec->is_object()) return;
  const auto each_kind = [&](json::object& container, const Field& field) {
    for (const KindInfo& kind : kKinds) {
      const Field lifecycle = field["lifecycle"];
      const bool hook = is_hook(kind.kind);
      if (hook && (!lifecycle.present() || !lifecycle.required_map())) continue;
      const Field probe = hook ? lifecycle[kind.field] : field[kind.field];
      if (!probe.present() || !probe.required_map()) continue;
      json::object& holder = hook ? container.at("lifecycle").as_object() : container;
      visit(field, kind, holder.at(kind.field).as_object(), probe);
    }
  };
  for (const std::string_view list : {"initContainers", "containers"}) {
    json::value* containers = spec->as_object().if_contains(list);
    const Field field(containers, spec::field_path("spec", list), findings);
    std::size_t at = 0;
    for (const Field& container : field.list()) {
      json::value& value = containers->as_array()[at++];
      if (!container.required_map()) continue;
      if (list == "initContainers" && container["restartPolicy"].text() != "Always") continue;
      each_kind(value.as_object(), container);
    }
  }
}

// Resolves a number, or the name of a port of the same container, as kubelet does.
std::optional<Port> resolve_port(const Field& port, const Field& container) {
  if (port.value() == nullptr || !port.value()->is_string()) {
    if (!port.present()) port.refuse("required");
    const auto number = port.integer(1, 65535);
    return number ? std::optional(Port{static_cast<std::uint16_t>(*number)}) : std::nullopt;
  }
  const std::string name = port.required_text();
  for (const Field& declared : container["ports"].list()) {
    if (declared["name"].text() != name) continue;
    const auto number = declared["containerPort"].integer(1, 65535);
    return number ? std::optional(Port{static_cast<std::uint16_t>(*number)}) : std::nullopt;
  }
  if (const auto number = port_of(name)) return number;
  port.refuse("the container has no port of the name '" + name + "': declare it in its ports");
  return std::nullopt;
}

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// The path as in kubelet's request: with escapes and a leading slash.
std::string request_path(std::string_view path) {
  constexpr std::string_view kPlain = "/-_.~$&+,:;=@!'()*";
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out = path.starts_with('/') ? "" : "/";
  for (std::size_t at = 0; at < path.size(); ++at) {
    const char c = path[at];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool escape =
        c == '%' && at + 2 < path.size() && is_hex(path[at + 1]) && is_hex(path[at + 2]);
    if (letter || escape || kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

// Refuses text that a request or YAML cannot contain.
std::string plain_text(const Field& field) {
  const std::string text = field.text().value_or("");
  if (std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    field.refuse("must not hold control characters");
  return text;
}

json::object sidecar_request(const Probe& probe, std::string_view query = {}) {
  std::string path = probe.asked;
  path.append(query);
  return {
      {"path", path}, {"port", std::int64_t{number(probe_port(probe.kind))}}, {"scheme", "HTTP"}};
}

// Completes `probe` with an HTTP handler. Result: the query that kubelet's request has.
std::string read_url(const Field& get, Probe& probe) {
  const std::string url = plain_text(get["path"]);
  const std::string_view sent = std::string_view(url).substr(0, url.find('#'));
  const auto query = std::min(sent.find('?'), sent.size());
  probe.path = request_path(sent.substr(0, query));
  return std::string(sent.substr(query));
}

// Reads the handler `name` into `probe`. Result: the httpGet that replaces it; nothing for handlers
// that stay, because they name another host, and for refused ones.
std::optional<json::object> read_handler(std::string_view name, const Field& handler,
                                         const Field& container, Probe& probe) {
  if (name != "grpc" && !handler["host"].text().value_or("").empty()) return std::nullopt;
  const std::string scheme = name == "httpGet" ? handler["scheme"].text().value_or("HTTP") : "HTTP";
  if (scheme != "HTTP" && scheme != "HTTPS") {
    handler["scheme"].refuse("must be HTTP or HTTPS");
    return std::nullopt;
  }
  const auto port = resolve_port(handler["port"], container);
  if (!port) return std::nullopt;
  probe.port = *port;
  if (name == "tcpSocket") {
    probe.method = ProbeMethod::kTcp;
    return sidecar_request(probe);
  }
  if (name == "grpc") {
    probe.method = ProbeMethod::kGrpc;
    probe.grpc_service = plain_text(handler["service"]);
    return sidecar_request(probe);
  }
  probe.method = scheme == "HTTP" ? ProbeMethod::kHttp : ProbeMethod::kHttps;
  json::object request = sidecar_request(probe, read_url(handler, probe));
  if (const auto* headers = handler["httpHeaders"].value()) request["httpHeaders"] = *headers;
  return request;
}

// Number of seconds with Kubernetes' default; at most an hour.
std::int64_t seconds_of(const Field& field, std::int64_t otherwise) {
  const std::int64_t seconds = field.integer(0, INT32_MAX).value_or(0);
  return seconds == 0 ? otherwise : std::min<std::int64_t>(seconds, 3600);
}

// The original handlers of a pod: {"web": {"livenessProbe": {"httpGet": {...}}}}.
json::object take_originals(json::object& pod, spec::Findings& findings) {
  json::value* annotations = find(pod, "metadata", "annotations");
  if (annotations == nullptr || !annotations->is_object()) return {};
  json::object& map = annotations->as_object();
  const Field field(map.if_contains(kOriginalProbesAnnotation),
                    spec::field_path("metadata.annotations", kOriginalProbesAnnotation), findings);
  const std::string text = field.text().value_or("");
  if (!field.present()) return {};
  json::parse_options options;
  options.max_depth = 16;
  boost::system::error_code fault;
  json::value originals = json::parse(text, fault, {}, options);
  if (fault || !originals.is_object()) {
    field.refuse("must be what the injector wrote there: remove it from pods that are new");
    return {};
  }
  map.erase(kOriginalProbesAnnotation);
  return std::move(originals.as_object());
}

bool is_rewritten(const json::object& probe, const KindInfo& kind, const std::string& container) {
  const json::object& get = v1::map_at(probe, "httpGet");
  if (number_at(get, "port") != kind.port) return false;
  const std::string path = text_at(get, "path");
  const std::string ours = probe_path(kind.kind, container);
  return is_hook(kind.kind) ? path.starts_with(ours) : path.substr(0, path.find('?')) == ours;
}

}  // namespace

bool is_hook(ProbeKind kind) {
  return kind == ProbeKind::kPostStart || kind == ProbeKind::kPreStop;
}

Port probe_port(ProbeKind kind) { return Port{info_of(kind).port}; }

std::string probe_path(ProbeKind kind, const std::string& container, const std::string& hook_key) {
  const KindInfo& info = info_of(kind);
  std::string path = "/osm-";
  path.append(info.word).append("-").append(info.noun).append("/").append(container);
  if (is_hook(kind)) path.append("/").append(hook_key);
  return path;
}

std::string_view probe_word(ProbeKind kind) { return info_of(kind).word; }

std::vector<Probe> rewrite_probes(json::object& pod, const std::string& hook_key,
                                  spec::Findings& findings) {
  std::vector<Probe> probes;
  json::object originals;
  each_probe(
      pod, findings,
      [&](const Field& container, const KindInfo& kind, json::object& value, const Field& field) {
        Probe probe{.container = container["name"].required_text(), .kind = kind.kind};
        probe.asked = probe_path(probe.kind, probe.container, hook_key);
        const auto* const handler = std::ranges::find_if(
            kHandlers, [&](std::string_view name) { return field[name].present(); });
        // kubelet itself does not support tcpSocket hooks.
        if (handler == kHandlers.end() || (is_hook(kind.kind) && *handler != "httpGet")) return;
        auto request = read_handler(*handler, field[*handler], container, probe);
        if (!request) return;
        probe.timeout_s = seconds_of(field["timeoutSeconds"], 1);
        probe.period_s = seconds_of(field["periodSeconds"], 10);
        json::value& kept = originals[probe.container];
        if (!kept.is_object()) kept.emplace_object();
        kept.as_object()[kind.field] = json::object{{*handler, std::move(value.at(*handler))}};
        value.erase(*handler);
        value["httpGet"] = *std::move(request);
        probes.push_back(std::move(probe));
      });
  if (!originals.empty() && findings.valid()) {
    map_at(pod, "metadata", "annotations")[kOriginalProbesAnnotation] = json::serialize(originals);
  }
  return probes;
}

void restore_probes(json::object& pod, spec::Findings& findings) {
  json::object originals = take_originals(pod, findings);
  each_probe(
      pod, findings,
      [&](const Field& container, const KindInfo& kind, json::object& value, const Field& field) {
        const std::string name = container["name"].required_text();
        if (!is_rewritten(value, kind, name)) return;
        json::value* original = find(originals, name, kind.field);
        if (original == nullptr || !original->is_object()) {
          field.refuse("is a sidecar's, and the pod's annotation " +
                       std::string(kOriginalProbesAnnotation) +
                       " does not tell what it was: copy pods with their annotations, or "
                       "write the probe anew");
          return;
        }
        value.erase("httpGet");
        for (const std::string_view handler : kHandlers)
          if (json::value* kept = original->as_object().if_contains(handler))
            value[handler] = std::move(*kept);
      });
}

json::object sidecar_probe(ProbeKind kind) {
  const std::string container(kEnvoyContainer);
  return {{"httpGet",
           sidecar_request(
               {.container = container, .kind = kind, .asked = probe_path(kind, container)})}};
}

Probe sidecar_drain(std::int64_t seconds, const std::string& hook_key) {
  const std::string container(kEnvoyContainer);
  return {.container = container,
          .kind = ProbeKind::kPreStop,
          .method = ProbeMethod::kWait,
          .asked = probe_path(ProbeKind::kPreStop, container, hook_key),
          .timeout_s = seconds};
}

json::object sidecar_lifecycle(const Probe& drain) {
  return {{"preStop", {{"httpGet", sidecar_request(drain)}}}};
}

}  // namespace osm::inline v1::inject
