#include "osm/kubernetes/check.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "install/installed.hpp"
#include "kubernetes/client/api.hpp"
#include "kubernetes/source/pod.hpp"
#include "kubernetes/upkeep/crds.hpp"
#include "kubernetes/upkeep/labels.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr int kOldestMinor = 27;  // the chart's kubeVersion says the same
constexpr std::string_view kInjection = "openservicemesh.io/sidecar-injection";
constexpr Resource kAccessReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                  "SelfSubjectAccessReview", false};
// Webhooks of OSM v1.2, by the mesh's name.
constexpr std::string_view kOsmV1Webhook = "osm-webhook-";
// Ports of usual servers that speak first, so that no HTTP proxy can stand before them.
constexpr std::array<std::pair<std::int64_t, std::string_view>, 6> kServersSpeakFirst{
    {{21, "FTP"}, {22, "SSH"}, {25, "SMTP"}, {110, "POP3"}, {143, "IMAP"}, {3306, "MySQL"}}};

class Check {
 public:
  Check(Cluster& cluster, const CheckOptions& options)
      : cluster_(cluster), api_(cluster.api()), options_(options) {}

  Result<std::vector<Finding>> before_install() {
    OSM_TRY(check_version());
    OSM_TRY(check_rights());
    OSM_TRY(check_osm_v1());
    return std::move(findings_);
  }

  Result<std::vector<Finding>> installation() {
    OSM_TRY(check_version());
    for (const char* name : {"osm-controller", "osm-injector"})
      OSM_TRY(check_object(
          kDeployments, options_.osm_namespace, name,
          fmt::format("kubectl describe pods -n {} -l app={}", options_.osm_namespace, name)));
    const std::string again = fmt::format("osm install --osm-namespace {} --mesh-name {}",
                                          options_.osm_namespace, options_.mesh_name);
    OSM_TRY(check_object(kMutatingWebhooks, {}, "libosm-webhook-" + options_.mesh_name, again));
    OSM_TRY(check_object(kValidatingWebhooks, {}, "libosm-validator-" + options_.mesh_name, again));
    OSM_TRY(check_crds(again));
    OSM_TRY(check_object(kMeshConfigs, options_.osm_namespace, "osm-mesh-config",
                         "restore it; the last one stays in force until then"));
    OSM_TRY(check_ca());
    OSM_TRY(check_osm_v1());
    OSM_TRY(check_namespaces());
    return std::move(findings_);
  }

 private:
  void add(Verdict verdict, std::string subject, std::string text, std::string remedy = {}) {
    findings_.push_back({verdict, std::move(subject), std::move(text), std::move(remedy)});
  }

  Status check_version() {
    const auto asked = server_minor_version(cluster_);
    if (!asked.ok())
      return Error{asked.error().code,
                   asked.error().message +
                       ": start the API server, or correct the kubeconfig; sidecars go on with "
                       "their last configuration meanwhile"};
    const int minor = *asked;
    if (minor >= kOldestMinor)
      add(Verdict::kFine, "Kubernetes", fmt::format("1.{} at {}", minor, cluster_.server()));
    else
      add(Verdict::kFault, "Kubernetes", fmt::format("1.{} is not supported", minor),
          fmt::format("use 1.{} or newer", kOldestMinor));
    return {};
  }

  Result<bool> may_create(const Resource& resource) {
    json::object attributes{
        {"verb", "create"}, {"group", resource.group}, {"resource", resource.plural}};
    if (resource.namespaced) attributes["namespace"] = options_.osm_namespace;
    OSM_TRY(const json::object review,
            api_.create(kAccessReviews, {{"apiVersion", kAccessReviews.api_version()},
                                         {"kind", kAccessReviews.kind},
                                         {"spec", {{"resourceAttributes", attributes}}}}));
    return bool_at(map_at(review, "status"), "allowed").value_or(false);
  }

  Status check_rights() {
    std::string missing;
    for (const Resource& resource : kInstalled) {
      OSM_TRY(const bool may, may_create(resource));
      if (!may) missing += (missing.empty() ? "" : ", ") + std::string(resource.plural);
    }
    if (missing.empty())
      add(Verdict::kFine, "Permissions", "you may create every object of the mesh");
    else
      add(Verdict::kFault, "Permissions", "you may not create " + missing,
          "ask for the ClusterRole cluster-admin, or apply the output of `osm install --dry-run` "
          "with another account");
    return {};
  }

  // A mesh of OSM v1.2 with the same name selects the same namespaces.
  Status check_osm_v1() {
    const std::string name = std::string(kOsmV1Webhook) + options_.mesh_name;
    const auto hook = api_.get(kMutatingWebhooks, {}, name);
    if (!hook.ok())
      return hook.error().code == ErrorCode::kNotFound ? Status() : Status(hook.error());
    add(Verdict::kWarning, "MutatingWebhookConfiguration " + name,
        "OSM v1.2 serves a mesh of this name, and injects its own sidecars",
        "docs/migrate-from-osm.md moves that mesh; osm.besideOsmV1=true keeps both apart "
        "meanwhile");
    return {};
  }

  Status check_object(const Resource& resource, const std::string& ns, const std::string& name,
                      const std::string& remedy) {
    const auto present = api_.get(resource, ns, name);
    const std::string subject = display_name(resource, {ns, name, {}, {}});
    if (!present.ok() && present.error().code != ErrorCode::kNotFound) return present.error();
    if (!present.ok()) {
      add(Verdict::kFault, subject, "it does not exist", remedy);
      return {};
    }
    const std::string missing = missing_of(resource, *present);
    if (missing.empty())
      add(Verdict::kFine, subject, "in order");
    else
      add(Verdict::kFault, subject, missing, remedy);
    return {};
  }

  Status check_crds(const std::string& remedy) {
    std::size_t fine = 0;
    for (const json::object& crd : crds()) {
      const std::string name = metadata_of(crd).name;
      const auto present = api_.get(kCrds, {}, name);
      if (!present.ok() && present.error().code != ErrorCode::kNotFound) return present.error();
      const std::string missing = present.ok() ? missing_of(kCrds, *present) : "it does not exist";
      if (missing.empty())
        ++fine;
      else
        add(Verdict::kFault, "CustomResourceDefinition " + name, missing, remedy);
    }
    add(Verdict::kFine, "CustomResourceDefinitions", fmt::format("{} are served", fine));
    return {};
  }

  // Argument `flag` of osm-controller; empty: it has none.
  Result<std::string> controller_argument(std::string_view flag) {
    const auto deployment = api_.get(kDeployments, options_.osm_namespace, "osm-controller");
    if (!deployment.ok())
      return deployment.error().code == ErrorCode::kNotFound ? Result<std::string>(std::string())
                                                             : deployment.error();
    const json::object& pod = map_at(map_at(map_at(*deployment, "spec"), "template"), "spec");
    for (const json::value& container : list_at(pod, "containers"))
      for (const json::value& argument : list_at(container, "args")) {
        const std::string_view text =
            argument.is_string() ? std::string_view(argument.get_string()) : std::string_view();
        if (text.starts_with(flag) && text.substr(flag.size()).starts_with('='))
          return std::string(text.substr(flag.size() + 1));
      }
    return std::string();
  }

  // The mesh's own CA is a Secret; those of other providers are theirs.
  Status check_ca() {
    OSM_TRY(const std::string kind, controller_argument("--certificate-manager"));
    OSM_TRY(const std::string secret, controller_argument("--ca-bundle-secret-name"));
    if (kind != "tresor" || secret.empty()) return {};
    auto checked = check_object(kSecrets, options_.osm_namespace, secret,
                                "restore it from a backup, before a controller is started again");
    if (checked.ok() || checked.error().code != ErrorCode::kPermissionDenied) return checked;
    add(Verdict::kWarning, "Secret " + options_.osm_namespace + '/' + secret,
        "it was not looked for, since you may not read it", "ask somebody who may");
    return {};
  }

  std::string join_command(const std::string& ns) const {
    return fmt::format("osm namespace add {} --mesh-name {}", ns, options_.mesh_name);
  }

  struct Home {
    bool monitored = false;
    bool injected = false;
    std::size_t pods = 0;
    std::size_t without_sidecar = 0;
  };

  Status check_namespaces() {
    OSM_TRY(const auto namespaces, list_all(api_, {.resource = kNamespaces}));
    std::map<std::string, Home> homes;
    for (const json::object& object : namespaces) {
      const json::object& metadata = map_at(object, "metadata");
      Home home;
      home.monitored =
          text_at(map_at(metadata, "labels"), spec::kMonitoredByLabel) == options_.mesh_name;
      home.injected = is_enabled(text_at(map_at(metadata, "annotations"), kInjection));
      const bool of_another = map_at(metadata, "labels").contains(spec::kMonitoredByLabel);
      const std::string name = text_at(metadata, "name");
      if (home.monitored) homes[name] = home;
      if (home.injected && !of_another)
        add(Verdict::kWarning, "Namespace " + name,
            "sidecar injection is enabled, but the namespace is not in the mesh",
            join_command(name));
    }
    for (auto& [name, home] : homes) {
      OSM_TRY(count_pods(name, home));
      OSM_TRY(check_services(name));
      report(name, home);
    }
    if (homes.empty())
      add(Verdict::kWarning, "Namespaces", "none is in the mesh", join_command("NAME"));
    return {};
  }

  static bool is_enabled(const std::string& annotation) {
    return annotation == "enabled" || annotation == "yes" || annotation == "true";
  }

  Status count_pods(const std::string& ns, Home& home) {
    OSM_TRY(const auto pods, list_all(api_, {.resource = kPods, .ns = ns, .metadata_only = true}));
    for (const json::object& pod : pods) {
      const json::object& metadata = map_at(pod, "metadata");
      const std::string wanted = text_at(map_at(metadata, "annotations"), kInjection);
      const bool has = map_at(metadata, "labels").contains(kProxyUuidLabel);
      ++home.pods;
      if (!has && (wanted.empty() ? home.injected : is_enabled(wanted))) ++home.without_sidecar;
    }
    return {};
  }

  Status check_services(const std::string& ns) {
    OSM_TRY(const auto services, list_all(api_, {.resource = kServices, .ns = ns}));
    for (const json::object& service : services)
      for (const json::value& port : list_at(map_at(service, "spec"), "ports"))
        check_port(ns + '/' + text_at(map_at(service, "metadata"), "name"), port);
    return {};
  }

  void check_port(const std::string& service, const json::value& port) {
    const auto protocol = protocol_of(text_at(port, "appProtocol"), text_at(port, "name"));
    if (!protocol || !is_http(*protocol)) return;
    for (const auto& [number, server] : kServersSpeakFirst)
      if (number_at(port, "port") == number)
        add(Verdict::kWarning, "Service " + service,
            fmt::format("spec.ports: port {} is taken for {}, where the client speaks first; {} "
                        "servers do",
                        number, protocol_text(*protocol), server),
            "set appProtocol: tcp-server-first");
  }

  void report(const std::string& name, const Home& home) {
    if (home.without_sidecar > 0)
      add(Verdict::kWarning, "Namespace " + name,
          fmt::format("{} of {} pods have no sidecar, though injection is enabled: they started "
                      "before it was, or use the node's network",
                      home.without_sidecar, home.pods),
          "kubectl rollout restart deployment -n " + name);
    else
      add(Verdict::kFine, "Namespace " + name,
          fmt::format("in the mesh, {} pods, injection {}", home.pods,
                      home.injected ? "enabled" : "not enabled"));
  }

  Cluster& cluster_;
  Api& api_;
  const CheckOptions& options_;
  std::vector<Finding> findings_;
};

}  // namespace

Result<std::vector<Finding>> check_before_install(Cluster& cluster, const CheckOptions& options) {
  return Check(cluster, options).before_install();
}

Result<std::vector<Finding>> check_installation(Cluster& cluster, const CheckOptions& options) {
  return Check(cluster, options).installation();
}

}  // namespace osm::inline v1::kubernetes
