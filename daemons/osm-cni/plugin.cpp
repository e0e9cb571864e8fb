#include "plugin.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "osm/inject/pod_interception.hpp"
#include "pod_network.hpp"

namespace osm::cni {
namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 4> kVersions{"0.3.1", "0.4.0", "1.0.0", "1.1.0"};
constexpr std::string_view kAnnotations = "io.kubernetes.cri.pod-annotations";
// A rule that only an interception has; it comes last.
constexpr std::string_view kCheckScript =
    "iptables -w -t filter -C INPUT -p tcp -j OSM_PROXY_DIRECT";

// Codes of the specification, and our own from 100 on.
enum class Code {
  kIncompatibleVersion = 1,
  kInvalidEnvironment = 4,
  kUndecodable = 6,
  kInvalidConfiguration = 7,
  kNotAvailable = 50,
  kRefusedAnnotation = 100,
  kNotIntercepted = 101,
};

struct Failure {
  Code code;
  std::string message;
  std::string details{};
};

struct Call {
  std::string command;
  std::string ns;  // path of the network namespace
  json::object configuration;
  std::string version;
};

Answer error_of(const Failure& failure, std::string_view version) {
  json::object error{{"cniVersion", version},
                     {"code", static_cast<int>(failure.code)},
                     {"msg", "osm-cni: " + failure.message}};
  if (!failure.details.empty()) error["details"] = failure.details;
  return {json::serialize(error) + '\n', 1};
}

std::string text_at(const json::object& map, std::string_view key) {
  const json::value* value = map.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

const json::object* map_at(const json::object& map, std::string_view key) {
  const json::value* value = map.if_contains(key);
  return value != nullptr ? value->if_object() : nullptr;
}

std::optional<std::string> annotation_of(const json::object& configuration) {
  const json::object* runtime = map_at(configuration, "runtimeConfig");
  const json::object* annotations = runtime ? map_at(*runtime, kAnnotations) : nullptr;
  if (annotations == nullptr) return std::nullopt;
  const json::value* value = annotations->if_contains(inject::kInterceptionAnnotation);
  if (value == nullptr) return std::nullopt;
  return value->is_string() ? std::string(value->get_string()) : std::string();
}

// The pod's name servers, as the runtime tells plugins with the capability "dns".
std::string name_servers_of(const json::object& configuration) {
  std::string out;
  const json::object* runtime = map_at(configuration, "runtimeConfig");
  const json::object* dns = runtime ? map_at(*runtime, "dns") : nullptr;
  const json::value* servers = dns ? dns->if_contains("servers") : nullptr;
  if (servers == nullptr || !servers->is_array()) return out;
  for (const json::value& server : servers->get_array())
    if (server.is_string()) out.append(server.get_string()).append(" ");
  return out;
}

// The addresses that the plugins before this one gave the pod.
PodNetwork network_of(const Call& call, const json::object& result) {
  PodNetwork pod{
      .ns = call.ns, .addresses = {}, .name_servers = name_servers_of(call.configuration)};
  const json::value* ips = result.if_contains("ips");
  if (ips == nullptr || !ips->is_array()) return pod;
  for (const json::value& item : ips->get_array()) {
    if (!item.is_object()) continue;
    std::string address = text_at(item.get_object(), "address");
    address.resize(std::min(address.size(), address.find('/')));
    if (pod.ip.empty() && address.find(':') == std::string::npos) pod.ip = address;
    if (!pod.addresses.empty()) pod.addresses += ',';
    pod.addresses += address;
  }
  return pod;
}

Failure not_there(const Error& error) {
  return {Code::kNotAvailable, error.message,
          "the traffic of the pod is not redirected, so it does not start; see the log of the "
          "osm-cni pod of this node"};
}

Answer add(const Call& call, const std::filesystem::path& root) {
  const json::object* result = map_at(call.configuration, "prevResult");
  if (result == nullptr)
    return error_of({Code::kInvalidConfiguration, "there is no prevResult",
                     "osm-cni is a chained plugin: list it last in a .conflist file"},
                    call.version);
  if (const auto annotation = annotation_of(call.configuration)) {
    const auto script = inject::pod_interception_script(*annotation);
    if (!script.ok())
      return error_of({Code::kRefusedAnnotation, script.error().message}, call.version);
    if (const Status ran = run_in(network_of(call, *result), root, *script); !ran.ok())
      return error_of(not_there(ran.error()), call.version);
  }
  json::object same = *result;
  same["cniVersion"] = call.version;
  return {json::serialize(same) + '\n'};
}

Answer check(const Call& call, const std::filesystem::path& root) {
  if (!annotation_of(call.configuration)) return {};
  const PodNetwork pod{.ns = call.ns, .addresses = {}};
  if (const Status ran = run_in(pod, root, std::string(kCheckScript)); !ran.ok())
    return error_of(
        {Code::kNotIntercepted, "the pod's traffic is not redirected", ran.error().message},
        call.version);
  return {};
}

Answer status(const Call& call, const std::filesystem::path& root) {
  std::error_code fault;
  if (std::filesystem::exists(root / "bin/sh", fault)) return {};
  return error_of({Code::kNotAvailable, root.string() + " is missing",
                   "the osm-cni pod of this node installs it"},
                  call.version);
}

Answer version(const Call& call) {
  return {json::serialize(json::object{
              {"cniVersion", call.version.empty() ? std::string(kVersions.back()) : call.version},
              {"supportedVersions", json::array(kVersions.begin(), kVersions.end())}}) +
          '\n'};
}

}  // namespace

Answer answer(const std::map<std::string, std::string>& environment, std::string_view configuration,
              const std::filesystem::path& root) {
  const auto variable = [&environment](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  Call call{variable("CNI_COMMAND"), variable("CNI_NETNS"), {}, {}};
  boost::system::error_code fault;
  json::value parsed = json::parse(configuration, fault);
  if (fault || !parsed.is_object())
    return error_of({Code::kUndecodable, "standard input is no JSON object"}, kVersions.back());
  call.configuration = std::move(parsed.as_object());
  call.version = text_at(call.configuration, "cniVersion");
  if (call.command == "VERSION") return version(call);
  if (std::find(kVersions.begin(), kVersions.end(), call.version) == kVersions.end())
    return error_of({Code::kIncompatibleVersion, "cniVersion '" + call.version + "' is unknown",
                     "0.3.1, 0.4.0, 1.0.0 and 1.1.0 are known"},
                    kVersions.back());
  // The pod's network namespace goes away with its rules.
  if (call.command == "DEL" || call.command == "GC") return {};
  if (call.command == "STATUS") return status(call, root);
  if (call.command != "ADD" && call.command != "CHECK")
    return error_of({Code::kInvalidEnvironment, "CNI_COMMAND is unknown",  // any bytes: no JSON
                     "ADD, CHECK, DEL, GC, STATUS and VERSION are known"},
                    call.version);
  if (call.ns.empty())
    return error_of({Code::kInvalidEnvironment, "CNI_NETNS is missing"}, call.version);
  return call.command == "ADD" ? add(call, root) : check(call, root);
}

}  // namespace osm::cni
