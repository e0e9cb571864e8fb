// The CNI plugin runs the script that osm-init would run; no forged annotation gets text into it;
// its pods satisfy PodSecurity restricted.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <string>

#include "inject/pod_cases.hpp"
#include "osm/inject/pod_interception.hpp"

using namespace osm;

namespace {

namespace json = boost::json;
using inject::kInterceptionAnnotation;
using inject::pod_interception_script;
using inject_test::golden_pod;
using inject_test::PodCase;

json::object first_init_container(const json::object& pod) {
  return pod.at("spec").at("initContainers").as_array().at(0).as_object();
}

std::string annotation_of(const json::object& pod) {
  return std::string(pod.at("metadata").at("annotations").at(kInterceptionAnnotation).as_string());
}

std::string refusal_of(const std::string& annotation) {
  const auto script = pod_interception_script(annotation);
  REQUIRE_FALSE(script.ok());
  return script.error().message;
}

}  // namespace

TEST_SUITE("inject::pod_interception") {
  TEST_CASE("the plugin runs the script that osm-init would run, for every golden pod") {
    for (const std::string& name : inject_test::golden_pods()) {
      CAPTURE(name);
      PodCase pod = golden_pod(name);
      pod.cni = false;
      const json::object without = pod.patched().pod;
      pod.cni = true;
      const auto script = pod_interception_script(annotation_of(pod.patched().pod));
      REQUIRE_MESSAGE(script.ok(), script.error().text());
      CHECK(*script == first_init_container(without).at("args").at(1).as_string());
    }
  }

  TEST_CASE("with a plugin no container has rights that PodSecurity restricted refuses") {
    const json::object pod = golden_pod("cni").patched().pod;
    for (const json::value& container : pod.at("spec").at("initContainers").as_array()) {
      const json::object& security = container.at("securityContext").as_object();
      CHECK(security.at("allowPrivilegeEscalation") == false);
      CHECK(security.at("runAsNonRoot") == true);
      CHECK(security.at("runAsUser") != 0);
      CHECK(security.at("privileged") == false);
      CHECK(json::serialize(security.at("capabilities")) == R"({"drop":["ALL"]})");
      CHECK(security.at("seccompProfile").at("type") == "RuntimeDefault");
    }
  }

  TEST_CASE("without a plugin an annotation that the pod came with is removed") {
    PodCase pod = golden_pod("cni");
    pod.pod = pod.patched().pod;
    pod.cni = false;
    CHECK_FALSE(pod.patched()
                    .pod.at("metadata")
                    .at("annotations")
                    .as_object()
                    .contains(kInterceptionAnnotation));
  }

  TEST_CASE("an annotation that somebody else wrote gets nothing into the script") {
    CHECK(pod_interception_script("{}").ok());
    CHECK(refusal_of("").find("no JSON object") != std::string::npos);
    CHECK(refusal_of("[]").find("no JSON object") != std::string::npos);
    CHECK(refusal_of(R"({"rules":"-F"})").find("field rules") != std::string::npos);
    CHECK(refusal_of(R"x({"localProxyMode":"$(id)"})x").find("localProxyMode") !=
          std::string::npos);
    for (const char* const port : {"0", "65536", "-1", "1.5", "\"22\"", "null", "[22]"}) {
      CAPTURE(port);
      refusal_of(R"({"inboundPorts":[)" + std::string(port) + "]}");
      refusal_of(R"({"outboundPorts":[)" + std::string(port) + "]}");
    }
    for (const char* const text :
         {"10.0.0.0/8 -j ACCEPT", "$(id)", "`id`", "10.0.0.0/33", "", "10.0.0.0/8\\nCOMMIT"}) {
      CAPTURE(text);
      refusal_of(R"({"outboundIPRanges":[")" + std::string(text) + "\"]}");
      refusal_of(R"({"outboundIncludedIPRanges":[")" + std::string(text) + "\"]}");
    }
    for (const char* const text : {"eth0 -j ACCEPT", "$(id)", "-i", "", "eth0\\nCOMMIT"}) {
      CAPTURE(text);
      refusal_of(R"({"interfaces":[")" + std::string(text) + "\"]}");
    }
    refusal_of(R"({"interfaces":[")" + std::string(70'000, 'a') + "\"]}");
  }
}
