// Finds out why controllers and sidecars do not reach each other, or the API server.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/openssl.hpp"
#include "base/times.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/client/api_status.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/source/pod.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/kubernetes/check.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;
using std::chrono::seconds;

constexpr int kHttpPort = 9091;            // the controllers' --http-address in the chart
constexpr seconds kAnswerTime{5};          // for a controller
constexpr std::size_t kMaxExplained = 20;  // pods, since each costs two questions
constexpr const char* kSidecar = "envoy";  // its container

std::string pod_text(const std::string& ns, const std::string& name) {
  return "Pod " + ns + '/' + name;
}

// -- controllers

// Result: the body of a controller's answer from its open port.
Result<std::string> ask_controller(Api& api, const std::string& ns, const std::string& pod,
                                   const std::string& path) {
  ForwardRequest forward;
  forward.target = kPods.path(ns, pod + ':' + std::to_string(kHttpPort), "proxy") + path;
  forward.deadline = kAnswerTime;
  OSM_TRY(net::Response response, api.forward(forward));
  // A controller that is not ready answers 503 and says why.
  const auto body = parse_json_object(response.body, "the answer");
  const bool from_server = body.ok() && text_at(*body, "kind") == "Status";
  if (from_server || (response.status >= 300 && response.status != 503))
    return error_of_response(response, "ask pod " + ns + '/' + pod);
  return std::move(response.body);
}

// The reasons in an answer of /health/ready.
std::string reasons_in(const std::string& answer) {
  std::string reasons;
  for (std::size_t at = 0; at < answer.size();) {
    const std::size_t end = std::min(answer.find('\n', at), answer.size());
    const std::string_view line(answer.data() + at, end - at);
    if (line.starts_with("- "))
      reasons += (reasons.empty() ? "" : "; ") + std::string(line.substr(2));
    at = end + 1;
  }
  return reasons;
}

Finding judge_controller(Api& api, const std::string& ns, const RunningPod& pod) {
  const std::string subject = pod_text(ns, pod.name);
  const auto version = ask_controller(api, ns, pod.name, "/version");
  if (!version.ok()) {
    const bool denied = version.error().code == ErrorCode::kPermissionDenied;
    return {denied ? Verdict::kWarning : Verdict::kFault, subject,
            "it was not asked: " + version.error().message,
            denied ? "the Role osm-viewer permits it"
                   : fmt::format("look at its log: kubectl logs -n {} {}", ns, pod.name)};
  }
  const auto said = parse_json_object(*version, "the answer");
  if (said.ok() && bool_at(*said, "stale").value_or(false))
    return {
        Verdict::kFault, subject,
        "stale: it does not reach the API server, and knows none of the latest changes",
        "let it reach the API server: NetworkPolicies, firewalls and the node's routes can keep "
        "it away; it goes on by itself then"};
  if (pod.ready) return {Verdict::kFine, subject, "it reaches the API server"};
  const auto health = ask_controller(api, ns, pod.name, "/health/ready");
  const std::string reasons = health.ok() ? reasons_in(*health) : health.error().message;
  return {Verdict::kFault, subject, "it is not ready: " + reasons,
          fmt::format("look at its log: kubectl logs -n {} {}", ns, pod.name)};
}

// -- sidecars

using Fingerprints = std::set<std::string>;

Result<Fingerprints> fingerprints_in(std::string_view pem) {
  OSM_TRY(const auto certificates, openssl::parse_certificates(pem));
  Fingerprints found;
  for (const openssl::X509Handle& certificate : certificates) {
    OSM_TRY(std::string fingerprint, openssl::fingerprint(*certificate));
    found.insert(std::move(fingerprint));
  }
  return found;
}

bool share_one(const Fingerprints& a, const Fingerprints& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& each) { return b.contains(each); });
}

// The files that a sidecar starts with.
struct Bootstrap {
  std::string certificate_pem;
  std::string roots_pem;
};

class Sidecars {
 public:
  Sidecars(Api& api, const CheckOptions& options, WallTime now)
      : api_(api), options_(options), now_(now) {}

  Result<std::vector<Finding>> check(const std::set<std::string>& connected) {
    OSM_TRY(const auto namespaces,
            list_all(api_, {.resource = kNamespaces,
                            .label_selector =
                                std::string(spec::kMonitoredByLabel) + '=' + options_.mesh_name}));
    OSM_TRY(read_roots());
    for (const json::object& object : namespaces)
      OSM_TRY(check_namespace(metadata_of(object).name, connected));
    if (more_ > 0)
      add({Verdict::kWarning, "Pods",
           fmt::format("the sidecars of {} more are connected to no controller", more_),
           "mend those above first"});
    return std::move(findings_);
  }

 private:
  void add(Finding finding) { findings_.push_back(std::move(finding)); }

  // The roots of the mesh, as the daemons write them into the webhooks.
  Status read_roots() {
    const auto hook = api_.get(kMutatingWebhooks, {}, "libosm-webhook-" + options_.mesh_name);
    if (!hook.ok())
      return hook.error().code == ErrorCode::kNotFound ? Status() : Status(hook.error());
    for (const json::value& each : list_at(*hook, "webhooks")) {
      const auto pem = from_base64(text_at(map_at(each, "clientConfig"), "caBundle"));
      const auto found = fingerprints_in(pem.value_or(""));
      if (found.ok()) roots_.insert(found->begin(), found->end());
    }
    return {};
  }

  Status check_namespace(const std::string& ns, const std::set<std::string>& connected) {
    OSM_TRY(const auto pods, list_all(api_, {.resource = kPods,
                                             .ns = ns,
                                             .label_selector = kProxyUuidLabel,
                                             .metadata_only = true}));
    for (const json::object& pod : pods) {
      const json::object& metadata = map_at(pod, "metadata");
      const std::string uuid = text_at(map_at(metadata, "labels"), kProxyUuidLabel);
      if (connected.contains(uuid)) continue;
      if (explained_ == kMaxExplained)
        ++more_;
      else
        OSM_TRY(explain(ns, text_at(metadata, "name"), uuid));
    }
    return {};
  }

  Status explain(const std::string& ns, const std::string& name, const std::string& uuid) {
    const auto pod = api_.get(kPods, ns, name);
    if (!pod.ok()) return pod.error().code == ErrorCode::kNotFound ? Status() : Status(pod.error());
    const bool ends = member(map_at(*pod, "metadata"), "deletionTimestamp") != nullptr;
    if (ends || text_at(map_at(*pod, "status"), "phase") != "Running") return {};
    const std::string secret = bootstrap_secret(ProxyId(uuid));
    auto object = api_.get(kSecrets, ns, secret);
    ++explained_;
    const std::string subject = pod_text(ns, name);
    const std::string another = fmt::format("kubectl delete pod -n {} {}", ns, name);
    if (!object.ok()) {
      const bool missing = object.error().code == ErrorCode::kNotFound;
      add({missing ? Verdict::kFault : Verdict::kWarning, subject,
           "its sidecar is connected to no controller: " +
               (missing ? "its Secret " + secret + " does not exist" : object.error().message),
           missing ? "make another pod: " + another : "ask somebody who may read its Secret"});
      return {};
    }
    // A sidecar of OSM v1.2 is that mesh's.
    const std::string version =
        text_at(map_at(map_at(*object, "metadata"), "labels"), kVersionLabel);
    const json::object& data = map_at(*object, "data");
    const Bootstrap bootstrap{from_base64(text_at(data, "sds_cert.pem")).value_or(""),
                              from_base64(text_at(data, "cacert.pem")).value_or("")};
    erase_data(*object);
    if (version.starts_with('v')) return {};
    Finding finding = judge(bootstrap, "Secret " + secret, another);
    finding.subject = subject;
    finding.text = "its sidecar is connected to no controller: " + finding.text;
    if (finding.remedy.empty())
      finding.remedy = fmt::format(
          "it must reach TCP port 15128 of osm-controller in namespace {}; its log says more: "
          "kubectl logs -n {} {} -c {}",
          options_.osm_namespace, ns, name, kSidecar);
    add(std::move(finding));
    return {};
  }

  // The cause, as far as the bootstrap shows it, with its remedy.
  Finding judge(const Bootstrap& bootstrap, const std::string& secret,
                const std::string& another) const {
    const auto certificates = openssl::parse_certificates(bootstrap.certificate_pem);
    const auto roots = fingerprints_in(bootstrap.roots_pem);
    if (!certificates.ok() || !roots.ok())
      return {
          Verdict::kFault, {}, secret + " holds no certificates", "make another pod: " + another};
    const WallTime begin = openssl::not_before(*certificates->front());
    const WallTime end = openssl::not_after(*certificates->front());
    if (now_ < begin)
      return {Verdict::kFault,
              {},
              fmt::format("the certificate in {} is valid from {} on, and here it is {}", secret,
                          rfc3339(begin), rfc3339(now_)),
              "set the clocks of the controllers, the nodes and this machine; then make another "
              "pod: " +
                  another};
    if (now_ >= end)
      return {
          Verdict::kFault,
          {},
          fmt::format("the certificate in {} ended at {}", secret, rfc3339(end)),
          fmt::format("make another pod: {}; the log of osm-controller in namespace {} says why "
                      "the certificate was not renewed",
                      another, options_.osm_namespace)};
    if (!roots_.empty() && !share_one(*roots, roots_))
      return {Verdict::kFault,
              {},
              secret +
                  " holds only roots that the mesh does not have, such as that of an earlier "
                  "installation",
              "make another pod: " + another};
    return {Verdict::kWarning, {}, secret + " is in order"};
  }

  Api& api_;
  const CheckOptions& options_;
  const WallTime now_;
  Fingerprints roots_;         // empty: not known
  std::size_t explained_ = 0;  // pods
  std::size_t more_ = 0;       // pods that were not looked at
  std::vector<Finding> findings_;
};

}  // namespace

Result<std::vector<Finding>> check_controllers(Cluster& cluster, const CheckOptions& options) {
  OSM_TRY(const auto pods, list_running(cluster, options.osm_namespace, "osm-controller"));
  std::vector<Finding> findings;
  for (const RunningPod& pod : pods)
    findings.push_back(judge_controller(cluster.api(), options.osm_namespace, pod));
  return findings;
}

Result<std::vector<Finding>> check_sidecars(Cluster& cluster, const CheckOptions& options,
                                            const std::set<std::string>& connected, WallTime now) {
  const openssl::CleanErrorQueue clean;
  return Sidecars(cluster.api(), options, now).check(connected);
}

}  // namespace osm::inline v1::kubernetes
