// Probes and HTTP hooks are redirected to the sidecar.
#include "inject/probes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>

#include "inject/json_tools.hpp"
#include "inject/pod_cases.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

namespace json = boost::json;
using inject_test::golden_pod;
using inject_test::PodCase;

struct Handler {
  const char* yaml;
  std::optional<ProbeMethod> method;  // none: it stays as it is
};
const Handler kHandlers[] = {
    {R"({"httpGet": {"path": "/p", "port": "http"}})", ProbeMethod::kHttp},
    {R"({"httpGet": {"path": "/p", "port": 8080, "scheme": "HTTPS"}})", ProbeMethod::kHttps},
    {R"({"tcpSocket": {"port": "http"}})", ProbeMethod::kTcp},
    {R"({"grpc": {"port": 8080, "service": "s"}})", ProbeMethod::kGrpc},
    {R"({"exec": {"command": ["true"]}})", std::nullopt},
    {R"({"httpGet": {"host": "other.example.org", "path": "/p", "port": 80}})", std::nullopt},
};

struct Kind {
  const char* field;
  ProbeKind kind;
  const char* path;
  int port;
};
const Kind kProbes[] = {
    {"livenessProbe", ProbeKind::kLiveness, "/osm-liveness-probe/c", 15901},
    {"readinessProbe", ProbeKind::kReadiness, "/osm-readiness-probe/c", 15902},
    {"startupProbe", ProbeKind::kStartup, "/osm-startup-probe/c", 15903},
};
const Kind kHooks[] = {
    {"postStart", ProbeKind::kPostStart, "/osm-post-start-hook/c/key", 15904},
    {"preStop", ProbeKind::kPreStop, "/osm-pre-stop-hook/c/key", 15904},
};

// A pod whose one container of `list` has these fields; the others have none.
json::object pod_with(const std::string& list, json::object fields) {
  fields["name"] = "c";
  fields["ports"] = json::array{{{"name", "http"}, {"containerPort", 8080}}};
  if (list == "native sidecar") fields["restartPolicy"] = "Always";
  json::object spec{{"containers", {{{"name", "main"}}}}, {"initContainers", json::array()}};
  auto& containers = spec[list == "containers" ? "containers" : "initContainers"].as_array();
  containers.emplace_back(std::move(fields));
  return {{"metadata", json::object()}, {"spec", std::move(spec)}};
}

json::object handler_of(const json::object& pod, const std::string& list, const char* field) {
  const auto& containers =
      pod.at("spec").at(list == "containers" ? "containers" : "initContainers").as_array();
  const json::object& container = containers.back().as_object();
  const json::value* lifecycle = container.if_contains("lifecycle");
  return (lifecycle ? lifecycle->as_object() : container).at(field).as_object();
}

std::vector<Probe> rewritten(json::object& pod) {
  spec::Findings findings;
  std::vector<Probe> probes = rewrite_probes(pod, "key", findings);
  CHECK(findings.valid());
  return probes;
}

void check_goes_through_the_sidecar(const json::object& before, const std::string& list,
                                    const Kind& kind, ProbeMethod method) {
  json::object pod = before;
  const std::vector<Probe> probes = rewritten(pod);
  REQUIRE(probes.size() == 1);
  CHECK(probes[0].container == "c");
  CHECK(probes[0].kind == kind.kind);
  CHECK(probes[0].method == method);
  CHECK(probes[0].port == Port{8080});
  CHECK(probes[0].asked == kind.path);
  const json::object handler = handler_of(pod, list, kind.field);
  CHECK(handler.at("httpGet") ==
        json::object{{"path", kind.path}, {"port", kind.port}, {"scheme", "HTTP"}});
  for (const char* gone : {"tcpSocket", "grpc"}) CHECK_FALSE(handler.contains(gone));
  spec::Findings findings;
  restore_probes(pod, findings);
  CHECK(findings.valid());
  CHECK(pod.at("spec") == before.at("spec"));
}

void check_stays(const json::object& before) {
  json::object pod = before;
  CHECK(rewritten(pod).empty());
  CHECK(pod == before);
}

}  // namespace

TEST_SUITE("inject::rewrite_probes") {
  TEST_CASE("every kind of probe of every container that keeps running is asked of the sidecar") {
    for (const std::string list : {"containers", "native sidecar", "initContainers"}) {
      for (const Kind& kind : kProbes) {
        for (const Handler& handler : kHandlers) {
          CAPTURE(list);
          CAPTURE(kind.field);
          CAPTURE(handler.yaml);
          const json::object pod = pod_with(list, {{kind.field, json::parse(handler.yaml)}});
          if (handler.method && list != "initContainers") {
            check_goes_through_the_sidecar(pod, list, kind, *handler.method);
          } else {
            check_stays(pod);
          }
        }
      }
    }
  }

  TEST_CASE("hooks that are requests to the pod are asked of the sidecar, all others stay") {
    for (const std::string list : {"containers", "native sidecar"}) {
      for (const Kind& kind : kHooks) {
        for (const Handler& handler : kHandlers) {
          CAPTURE(list);
          CAPTURE(kind.field);
          CAPTURE(handler.yaml);
          const json::object pod =
              pod_with(list, {{"lifecycle", {{kind.field, json::parse(handler.yaml)}}}});
          // kubelet refuses hooks of kind tcpSocket by itself, and knows none of kind grpc.
          if (handler.method == ProbeMethod::kHttp || handler.method == ProbeMethod::kHttps) {
            check_goes_through_the_sidecar(pod, list, kind, *handler.method);
          } else {
            check_stays(pod);
          }
        }
        check_stays(pod_with(list, {{"lifecycle", {{kind.field, {{"sleep", {{"seconds", 3}}}}}}}}));
      }
    }
  }

  TEST_CASE("a hook with an undeclared port is refused by its field") {
    json::object pod =
        pod_with("containers",
                 {{"lifecycle", {{"preStop", {{"httpGet", {{"path", "/"}, {"port", "admin"}}}}}}}});
    spec::Findings findings;
    rewrite_probes(pod, "key", findings);
    const std::vector<Problem> problems = std::move(findings).take({});
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].field == "spec.containers[1].lifecycle.preStop.httpGet.port");
  }

  TEST_CASE("a copy of a pod with hooks has keys of its own") {
    PodCase pod = golden_pod("hooks");
    pod.pod = pod.patched().pod;
    PodPatchInput input = pod.input();
    input.hook_key = "another-key";
    const auto copy = patch_pod(input);
    REQUIRE_MESSAGE(copy.ok(), copy.error().text());
    const std::string text = json::serialize(copy->pod);
    CHECK(text.find("the-hook-key") == std::string::npos);
    CHECK(text.find("/osm-pre-stop-hook/web/another-key") != std::string::npos);
  }
}

TEST_SUITE("a sidecar that ends together with its pod's containers") {
  std::int64_t drain_of(const json::value& grace, bool native) {
    PodCase pod = golden_pod("plain");
    pod.native = native;
    if (!grace.is_null()) pod.pod.at("spec").as_object()["terminationGracePeriodSeconds"] = grace;
    const PatchedPod patched = pod.patched();
    const bool asked = json::serialize(patched.pod).find("/osm-pre-stop-hook/envoy/the-hook-key") !=
                       std::string::npos;
    for (const Probe& probe : patched.probes) {
      if (probe.method != ProbeMethod::kWait) continue;
      CHECK(asked);
      return probe.timeout_s;
    }
    CHECK_FALSE(asked);
    return 0;
  }

  TEST_CASE("the sidecar stays for half of the grace period, at most thirty seconds") {
    CHECK(drain_of(nullptr, false) == 15);
    CHECK(drain_of(8, false) == 4);
    CHECK(drain_of(3600, false) == 30);
    CHECK(drain_of(1, false) == 0);
    CHECK(drain_of(0, false) == 0);
  }

  TEST_CASE("a native one needs no hook: it is ended last") { CHECK(drain_of(30, true) == 0); }
}
