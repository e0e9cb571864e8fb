// Golden pods are patched as recorded, and conflicting pods are refused.
#include "inject/pod_patch.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <set>
#include <string>

#include "inject/golden.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_cases.hpp"
#include "inject/pod_names.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

namespace json = boost::json;
using inject_test::golden_pod;
using inject_test::pod_case;
using inject_test::PodCase;

const MeshMembership kMesh{"osm", "osm-system"};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

PodCase with_annotation(const std::string& name, const std::string& value) {
  PodCase pod = golden_pod("plain");
  map_at(pod.pod, "metadata", "annotations")[name] = value;
  return pod;
}

PodCase with_container(const std::string& fields) {
  return pod_case("spec: {containers: [{name: web, image: w, " + fields + "}]}\nmetadata: {}\n");
}

Result<bool> wanted(const PodCase& pod, const MeshMembership& mesh = kMesh) {
  const auto decision = wants_sidecar(pod.pod, pod.ns, mesh);
  if (!decision.ok()) return decision.error();
  return decision->wanted;
}

const json::object& container_of(const json::object& pod, const char* list, std::string_view name) {
  for (const json::value& container : pod.at("spec").at(list).as_array())
    if (container.at("name") == json::string(name)) return container.as_object();
  FAIL("no container " << std::string(name));
  std::abort();
}

std::vector<std::string> names_in(const json::object& pod, const char* list) {
  std::vector<std::string> names;
  if (const json::value* containers = pod.at("spec").as_object().if_contains(list))
    for (const json::value& container : containers->as_array())
      names.emplace_back(container.at("name").as_string());
  return names;
}

std::string init_script_of(const json::object& pod) {
  return std::string(container_of(pod, "initContainers", "osm-init").at("args").at(1).as_string());
}

}  // namespace

TEST_SUITE("inject::patch_pod") {
  TEST_CASE("every golden pod gets the expected patch") {
    for (const std::string& name : inject_test::golden_pods()) {
      CAPTURE(name);
      const PodCase pod = golden_pod(name);
      const PatchedPod patched = pod.patched();
      std::string text;
      inject_test::print_json(text, patched.pod);
      for (const std::string& warning : patched.warnings) text += "\nwarning: " + warning;
      testing::check_golden("pods/" + name + "/patched.json", text + '\n');
      testing::check_golden("pods/" + name + "/bootstrap.yaml",
                            inject_test::bootstrap_yaml(patched));
    }
  }

  TEST_CASE("native: osm-init, then Envoy, then the pod's own init containers") {
    const json::object pod = golden_pod("probes").patched().pod;
    CHECK(names_in(pod, "initContainers") ==
          std::vector<std::string>{"osm-init", "envoy", "migrate", "cache"});
    CHECK(names_in(pod, "containers") == std::vector<std::string>{"web", "rpc", "files"});
    CHECK(container_of(pod, "initContainers", "envoy").at("restartPolicy") == "Always");
    CHECK(container_of(pod, "initContainers", "envoy").contains("startupProbe"));
  }

  TEST_CASE("before 1.29 Envoy is a container, and the init containers are warned of") {
    const PatchedPod patched = golden_pod("old-cluster").patched();
    CHECK(names_in(patched.pod, "initContainers") ==
          std::vector<std::string>{"osm-init", "migrate"});
    CHECK(names_in(patched.pod, "containers") == std::vector<std::string>{"web", "envoy"});
    CHECK_FALSE(container_of(patched.pod, "containers", "envoy").contains("restartPolicy"));
    REQUIRE(patched.warnings.size() == 2);
    CHECK(contains(patched.warnings[0], "user 1500 bypasses the mesh"));
    CHECK(contains(patched.warnings[1], "init containers run before the sidecar"));
  }

  TEST_CASE("a pod that has sidecars of its own shows that the API server knows them") {
    PodCase pod = golden_pod("probes");
    pod.native = false;
    CHECK(names_in(pod.patched().pod, "initContainers")[1] == "envoy");
  }

  TEST_CASE("the pod's annotation decides about a native sidecar, in both directions") {
    for (const auto& [annotation, by_nodes, expected] :
         {std::tuple{"enabled", false, true}, std::tuple{"disabled", true, false},
          std::tuple{"yes", true, true}, std::tuple{"No", false, false}}) {
      CAPTURE(annotation);
      PodCase pod = with_annotation(std::string(kNativeSidecarAnnotation), annotation);
      pod.native = by_nodes;
      const json::object patched = pod.patched().pod;
      CHECK((names_in(patched, "initContainers") ==
             (expected ? std::vector<std::string>{"osm-init", "envoy"}
                       : std::vector<std::string>{"osm-init"})));
      CHECK(names_in(patched, "containers").size() == (expected ? 1 : 2));
      pod.pod = patched;
      CHECK(pod.patched().pod == patched);
    }
    PodCase own = golden_pod("probes");  // has a sidecar of its own
    map_at(own.pod, "metadata", "annotations")[kNativeSidecarAnnotation] = "disabled";
    CHECK(names_in(own.patched().pod, "containers").back() == "envoy");
    CHECK(contains(with_annotation(std::string(kNativeSidecarAnnotation), "auto").failure(),
                   "annotation openservicemesh.io/native-sidecar: 'auto' is neither enabled nor "
                   "disabled"));
  }

  TEST_CASE("applied twice it is applied once") {
    for (const std::string& name : inject_test::golden_pods()) {
      CAPTURE(name);
      PodCase pod = golden_pod(name);
      const PatchedPod once = pod.patched();
      pod.pod = once.pod;
      const PatchedPod twice = pod.patched();
      CHECK(twice.pod == once.pod);
      CHECK(twice.probes == once.probes);
    }
  }

  TEST_CASE("a copy has a UUID of its own and the sidecar of today") {
    const json::object pod = golden_pod("copy").patched().pod;
    CHECK_FALSE(contains(json::serialize(pod), "11111111"));
    CHECK_FALSE(contains(json::serialize(pod), "old-"));
    CHECK(pod.at("metadata").at("labels").at("osm-proxy-uuid") ==
          json::string(inject_test::kProxy.str()));
    CHECK(names_in(pod, "containers") == std::vector<std::string>{"web", "debugger"});
  }

  TEST_CASE("a copy without its annotations is refused") {
    PodCase pod = golden_pod("copy");
    pod.pod.at("metadata").as_object().erase("annotations");
    CHECK(contains(pod.failure(), "spec.containers[0].livenessProbe: is a sidecar's"));
    CHECK(contains(pod.failure(), "copy pods with their annotations"));
  }

  TEST_CASE("a container of the user's own called envoy is refused by name") {
    CHECK(pod_case("metadata: {}\nspec: {containers: [{name: envoy, image: e}]}").failure() ==
          "the pod cannot have a sidecar: spec.containers[0].name: is the sidecar's: give the "
          "container another name");
  }

  TEST_CASE("what the application names as the sidecar's is refused and stays") {
    const std::string web = "metadata: {}\nspec:\n  containers: [{name: web, image: w}]\n";
    const auto failure = [&](const std::string& more) { return pod_case(web + more).failure(); };
    CHECK(failure("  initContainers: [{name: osm-init, image: mine, args: [migrate]}]\n") ==
          "the pod cannot have a sidecar: spec.initContainers[0].name: is the sidecar's: give the "
          "container another name");
    CHECK(failure("  volumes: [{name: envoy-bootstrap-config-volume, emptyDir: {}}]\n") ==
          "the pod cannot have a sidecar: spec.volumes[0].name: is the sidecar's: give the volume "
          "another name");
    CHECK(pod_case("metadata: {}\nspec: {containers: [{name: osm-init, image: e}]}")
              .failure()
              .starts_with("the pod cannot have a sidecar: spec.containers[0].name"));
  }

  TEST_CASE("no container can have a port of the sidecar's") {
    for (const Port port : kSidecarPorts) {
      const std::string ports = "ports: [{containerPort: " + std::to_string(number(port));
      CHECK(
          contains(with_container(ports + "}]").failure(), "is the sidecar's: let the container"));
      CHECK(patch_pod(with_container(ports + ", protocol: UDP}]").input()).ok());
    }
  }

  TEST_CASE("the images of MeshConfig go before the injector's, and none at all is refused") {
    const json::object pod = golden_pod("exclusions").patched().pod;
    CHECK(container_of(pod, "initContainers", "envoy").at("image") ==
          "registry.example.org/envoy:2");
    CHECK(container_of(pod, "initContainers", "osm-init").at("image") ==
          "registry.example.org/init:2");
    const PodCase plain = golden_pod("plain");
    PodPatchInput without_envoy = plain.input();
    without_envoy.images.envoy.clear();
    CHECK(contains(patch_pod(without_envoy).error().message, "spec.sidecar.envoyImage"));
    PodPatchInput without_init = plain.input();
    without_init.images.init_container.clear();
    CHECK(contains(patch_pod(without_init).error().message, "spec.sidecar.initContainerImage"));
  }

  TEST_CASE("Envoy runs as the user that interception spares, without any privilege") {
    const json::object pod = golden_pod("plain").patched().pod;
    const json::value& security =
        container_of(pod, "initContainers", "envoy").at("securityContext");
    CHECK(security.at("runAsUser") == 1500);
    CHECK(security.at("allowPrivilegeEscalation") == false);
    CHECK(contains(init_script_of(pod), "--uid-owner 1500"));
  }

  TEST_CASE("annotations add to what MeshConfig excludes") {
    const std::string script = init_script_of(golden_pod("exclusions").patched().pod);
    CHECK(contains(script, "-A OSM_PROXY_OUTBOUND -p tcp -m multiport --dports 6379,6380,7070 -j"));
    CHECK(contains(script, "-A OSM_PROXY_INBOUND -p tcp -m multiport --dports 22,9200,15010"));
    CHECK(contains(script, "-A OSM_PROXY_OUTBOUND -d 10.1.0.0/16 -p tcp -j RETURN"));
    CHECK(contains(script, "-A OSM_PROXY_OUTBOUND -d 169.254.169.254/32 -p tcp -j RETURN"));
    CHECK(contains(script, "-A OSM_PROXY_OUTBOUND -d 192.168.0.0/16 -p tcp -j OSM_PROXY_OUT_"));
    CHECK(contains(script, "-A OSM_PROXY_INBOUND -i eth1 -j RETURN"));
    CHECK(contains(script, "-A OSM_PROXY_OUTBOUND -o net1 -j RETURN"));
  }

  TEST_CASE("a bad annotation is refused with the permitted values") {
    const std::string prefix = "openservicemesh.io/";
    for (const auto& [name, value, remedy] :
         {std::tuple{"outbound-port-exclusion-list", "80,http", "list ports from 1 to 65535"},
          std::tuple{"inbound-port-exclusion-list", "0", "list ports from 1 to 65535"},
          std::tuple{"inbound-port-exclusion-list", "80,", "'' is not a port"},
          std::tuple{"outbound-ip-range-exclusion-list", "10.0.0.0/33", "prefix length"},
          std::tuple{"outbound-ip-range-inclusion-list", "fd00::/8", "not an IPv4 network"},
          std::tuple{"network-interface-exclusion-list", "eth0 -j ACCEPT", "is no interface"},
          std::tuple{"network-interface-exclusion-list", "$(reboot)", "is no interface"}}) {
      CAPTURE(value);
      const std::string message = with_annotation(prefix + name, value).failure();
      CHECK(contains(message, "metadata.annotations[" + prefix + name + "]: "));
      CHECK(contains(message, remedy));
    }
    CHECK(patch_pod(with_annotation(prefix + "inbound-port-exclusion-list", " ").input()).ok());
  }

  TEST_CASE("an annotation lists at most 256 ports, networks or interfaces") {
    const std::string prefix = "openservicemesh.io/";
    for (const auto& [name, start, end] :
         {std::tuple{"inbound-port-exclusion-list", "9", ""},
          std::tuple{"outbound-port-exclusion-list", "9", ""},
          std::tuple{"inbound-ip-range-exclusion-list", "10.0.", ".0/24"},
          std::tuple{"outbound-ip-range-exclusion-list", "10.0.", ".0/24"},
          std::tuple{"outbound-ip-range-inclusion-list", "10.0.", ".0/24"},
          std::tuple{"network-interface-exclusion-list", "eth", ""}}) {
      CAPTURE(name);
      std::string list = start + std::to_string(0) + end;
      for (int i = 1; i < 256; ++i) list += ',' + (start + std::to_string(i)) + end;
      const auto patched = patch_pod(with_annotation(prefix + name, list).input());
      CHECK_MESSAGE(patched.ok(), patched.error().text());
      const std::string message =
          with_annotation(prefix + name, list + ',' + start + "7" + end).failure();
      CHECK(contains(message,
                     "metadata.annotations[" + prefix + name + "]: has 257 entries, at most 256"));
    }
  }

  TEST_CASE("everything that is wrong with a pod is said at once") {
    PodCase pod =
        with_container("ports: [{containerPort: 15001}], livenessProbe: {tcpSocket: {port: db}}");
    const std::string message = pod.failure();
    CHECK(contains(message, "spec.containers[0].ports[0].containerPort: 15001 is the sidecar's"));
    CHECK(contains(message,
                   "spec.containers[0].livenessProbe.tcpSocket.port: the container has no "
                   "port of the name 'db': declare it in its ports"));
  }

  TEST_CASE("an account that cannot be an identity is refused with pod, account and remedy") {
    const auto failure_of = [](const std::string& metadata, const std::string& account) {
      return pod_case("metadata: " + metadata + "\nspec: {serviceAccountName: " + account +
                      ", containers: [{name: web, image: w}]}\n")
          .failure();
    };
    CHECK(failure_of("{name: web-0}", "book.store") ==
          "the pod cannot have a sidecar: spec.serviceAccountName: pod shop/web-0 runs as account "
          "'book.store', whose name has a dot and so is no identity of the mesh: use another "
          "account, or annotate the pod openservicemesh.io/sidecar-injection: disabled");
    CHECK(contains(failure_of("{generateName: web-}", "a.b"), "pod shop/web-* runs as account"));
    CHECK(contains(failure_of("{name: web-0}", std::string(64, 'a')), "is no DNS label"));
  }

  TEST_CASE("a value that is no pod is refused") {
    for (const char* yaml :
         {"metadata: {}", "spec: {}", "{metadata: [], spec: {}}", "{metadata: {}, spec: [1]}",
          "{metadata: {}, spec: {containers: {}}}", "{metadata: {}, spec: {containers: [null]}}",
          "{metadata: {}, spec: {containers: [{name: 7}]}}",
          "{metadata: {}, spec: {containers: [], volumes: [{}]}}",
          "{metadata: {labels: 1}, spec: {containers: []}}",
          "{metadata: {annotations: {a: 1}}, spec: {containers: []}}"}) {
      CAPTURE(yaml);
      CHECK(contains(pod_case(yaml).failure(), "the pod cannot have a sidecar: "));
    }
  }
}

TEST_SUITE("inject::wants_sidecar") {
  TEST_CASE("the namespace enables, the pod decides") {
    for (const auto& [ns, pod, expected] :
         {std::tuple{"enabled", "", true}, std::tuple{"", "", false}, std::tuple{"", "YES", true},
          std::tuple{"disabled", "true", true}, std::tuple{"enabled", "disabled", false},
          std::tuple{"true", "No", false}, std::tuple{"false", "", false}}) {
      CAPTURE(ns);
      CAPTURE(pod);
      PodCase is = golden_pod("plain");
      is.ns.annotations.clear();
      if (*ns != '\0') is.ns.annotations[std::string(kInjectionAnnotation)] = ns;
      if (*pod != '\0') map_at(is.pod, "metadata", "annotations")[kInjectionAnnotation] = pod;
      CHECK(wanted(is).value_or(!expected) == expected);
    }
  }

  TEST_CASE("a value other than enabled and disabled is refused with the remedy") {
    const auto refused = wanted(with_annotation(std::string(kInjectionAnnotation), "maybe"));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidField);
    CHECK(refused.error().message ==
          "the pod: annotation openservicemesh.io/sidecar-injection: 'maybe' is neither enabled "
          "nor disabled: write one of enabled, yes, true, disabled, no, false");
    PodCase ns = golden_pod("plain");
    ns.ns.annotations[std::string(kInjectionAnnotation)] = "";
    CHECK(contains(wanted(ns).error().message, "namespace shop: annotation"));
    ns.ns.annotations[std::string(kMetricsAnnotation)] = "on";
    CHECK(contains(wants_metrics(ns.ns).error().message, "openservicemesh.io/metrics: 'on'"));
  }

  TEST_CASE("where metrics are wanted a pod is announced to Prometheus, once") {
    PodCase pod = golden_pod("metrics");
    const PatchedPod once = pod.patched();
    const auto& annotations = once.pod.at("metadata").at("annotations").as_object();
    CHECK(annotations.at("prometheus.io/scrape") == "true");
    CHECK(annotations.at("prometheus.io/port") == "15010");
    CHECK(annotations.at("prometheus.io/path") == "/stats/prometheus");
    CHECK(once.warnings.empty());
    pod.pod = once.pod;
    CHECK(pod.patched().warnings.empty());
  }

  TEST_CASE("the application's own annotations for Prometheus stay, and the author is told") {
    for (const char* name :
         {"prometheus.io/scrape", "prometheus.io/port", "prometheus.io/scheme"}) {
      CAPTURE(name);
      PodCase pod = golden_pod("metrics");
      map_at(pod.pod, "metadata", "annotations")[name] = "true";
      const json::object own = pod.pod.at("metadata").at("annotations").as_object();
      const PatchedPod patched = pod.patched();
      CHECK(patched.pod.at("metadata").at("annotations") == json::value(own));
      REQUIRE(patched.warnings.size() == 1);
      CHECK(contains(patched.warnings.front(), name));
      CHECK(contains(patched.warnings.front(), "by the name proxy-metrics"));
    }
  }

  TEST_CASE("pods of the host's network, of Windows and outside the mesh are left alone") {
    PodCase pod = golden_pod("plain");
    CHECK(wanted(pod).value_or(false));
    for (const auto& [spec, reason] :
         {std::pair{"{hostNetwork: true}", "spec.hostNetwork is true"},
          std::pair{"{os: {name: windows}}", "it is for Windows"},
          std::pair{"{nodeSelector: {kubernetes.io/os: windows}}", "it is for Windows"}}) {
      CAPTURE(spec);
      PodCase left_out = pod_case(std::string("metadata: {}\nspec: ") + spec);
      const auto decision = wants_sidecar(left_out.pod, left_out.ns, kMesh);
      REQUIRE(decision.ok());
      CHECK_FALSE(decision->wanted);
      CHECK(contains(decision->warning, "gets no sidecar and is outside of the mesh"));
      CHECK(contains(decision->warning, reason));
      // Nobody asked for a sidecar, or nobody can tell.
      for (const char* annotation : {"disabled", "maybe"}) {
        map_at(left_out.pod, "metadata", "annotations")[kInjectionAnnotation] = annotation;
        const auto quiet = wants_sidecar(left_out.pod, left_out.ns, kMesh);
        REQUIRE(quiet.ok());
        CHECK_FALSE(quiet->wanted);
        CHECK(quiet->warning.empty());
      }
    }
    for (const char* name : {"kube-system", "kube-public", "osm-system"}) {
      PodCase elsewhere = pod;
      elsewhere.ns.name = name;
      CHECK_FALSE(wanted(elsewhere).value_or(true));
    }
    PodCase others = pod;
    others.ns.labels[std::string(kMonitoredByLabel)] = "another";
    CHECK_FALSE(wanted(others).value_or(true));
    PodCase ignored = pod;
    ignored.ns.labels["openservicemesh.io/ignore"] = "true";
    CHECK_FALSE(wanted(ignored).value_or(true));
    PodCase moved = pod;  // OSM v1.2 ignores it, and nobody else
    moved.ns.labels["openservicemesh.io/ignore"] = "moved";
    CHECK(wanted(moved).value_or(false));
    const MeshMembership beside{"osm", "osm-system", true};
    CHECK(wanted(moved, beside).value_or(false));
    CHECK_FALSE(wanted(pod, beside).value_or(true));
    CHECK_FALSE(wanted(ignored, beside).value_or(true));
  }
}
