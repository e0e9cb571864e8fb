// Stored objects keep only the fields that the mesh reads.
#include "kubernetes/client/reduce.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <string>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/mesh_resources.hpp"

using namespace osm;

namespace {

using kubernetes::reduce;
using kubernetes::Resource;
namespace json = boost::json;

std::shared_ptr<const Object> reduced(const Resource& resource, const std::string& text) {
  return reduce(resource, json::parse(text).get_object(), "https://cluster");
}

TEST_SUITE("kubernetes::reduce") {
  TEST_CASE("an object keeps its own words, and loses who wrote them when") {
    const auto object = reduced(kubernetes::kTrafficTargets, R"({
      "apiVersion": "access.smi-spec.io/v1alpha3", "kind": "TrafficTarget",
      "metadata": {"name": "t", "namespace": "shop", "resourceVersion": "7", "uid": "u",
        "generation": 2, "labels": {"a": "b"}, "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "x"}},
      "spec": {"destination": {"kind": "ServiceAccount"}}, "status": {"conditions": []}})");
    CHECK(object->key == ObjectKey{kinds::kTrafficTarget, "shop", "t"});
    CHECK(object->api_version == "access.smi-spec.io/v1alpha3");
    CHECK(object->labels.at("a") == "b");
    CHECK(object->annotations == std::map<std::string, std::string>{{"mine", "x"}});
    CHECK(object->source.path ==
          "https://cluster/apis/access.smi-spec.io/v1alpha3/namespaces/shop/traffictargets/t");
    CHECK(*object->document == json::parse(R"({
      "apiVersion": "access.smi-spec.io/v1alpha3", "kind": "TrafficTarget",
      "metadata": {"name": "t", "namespace": "shop", "uid": "u", "generation": 2,
        "labels": {"a": "b"}, "annotations": {"mine": "x"}},
      "spec": {"destination": {"kind": "ServiceAccount"}}})"));
  }

  TEST_CASE("an object's age is its time of creation, and its uid") {
    const auto created = [](const std::string& metadata) {
      return reduced(kubernetes::kServices,
                     R"({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", )" +
                         metadata + "}}")
          ->created;
    };
    const Created old = created(R"("uid": "b", "creationTimestamp": "2025-12-31T23:59:59Z")");
    const Created now = created(R"("uid": "a", "creationTimestamp": "2026-01-01T00:00:00Z")");
    CHECK(old == Created{20251231235959, "b"});
    CHECK(old < now);
    CHECK(now < created(R"("uid": "b", "creationTimestamp": "2026-01-01T00:00:00Z")"));
    CHECK(created(R"("uid": "a", "creationTimestamp": "soon")") == Created{0, "a"});
  }

  TEST_CASE("a reduced node keeps its name and its kubelet's version") {
    const auto object = reduced(kubernetes::kNodes, R"({"apiVersion": "v1", "kind": "Node",
      "metadata": {"name": "n", "uid": "u", "labels": {"zone": "a"}}, "spec": {"podCIDR": "x"},
      "status": {"capacity": {"cpu": "4"}, "images": [{}], "conditions": [{"type": "Ready"}],
                 "nodeInfo": {"kubeletVersion": "v1.31.1", "machineID": "m"}}})");
    CHECK(object->key.name == "n");
    CHECK(*object->document == json::parse(R"({"metadata": {"name": "n"},
      "status": {"nodeInfo": {"kubeletVersion": "v1.31.1"}}})"));
  }

  TEST_CASE("a reduced pod keeps its name, account, address and readiness") {
    const auto object = reduced(kubernetes::kPods, R"({
      "apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "p", "namespace": "shop", "uid": "u", "generateName": "p-",
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"osm-proxy-uuid": "x"}, "finalizers": ["f"],
        "annotations": {"openservicemesh.io/metrics": "enabled", "other": "x"}},
      "spec": {"serviceAccountName": "web", "nodeName": "n", "subdomain": "s", "hostname": "h",
        "schedulerName": "default", "tolerations": [{}],
        "volumes": [{"name": "boot", "secret": {"secretName": "envoy-bootstrap-config-x", "items": []}},
                    {"name": "tmp", "emptyDir": {}}],
        "initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always", "ports": []}],
        "containers": [{"name": "c", "image": "x", "env": [{"name": "PASSWORD", "value": "s3cret"}],
                        "ports": [{"name": "http", "containerPort": 80}]}]},
      "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "hostIP": "1.1.1.1", "containerStatuses": [{}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "x"},
                       {"type": "Initialized", "status": "True"}]}})");
    CHECK(*object->document == json::parse(R"({
      "apiVersion": "v1", "kind": "Pod",
      "metadata": {"name": "p", "namespace": "shop", "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"osm-proxy-uuid": "x"},
        "annotations": {"openservicemesh.io/metrics": "enabled"}},
      "spec": {"serviceAccountName": "web", "nodeName": "n", "subdomain": "s", "hostname": "h",
        "volumes": [{"name": "boot", "secret": {"secretName": "envoy-bootstrap-config-x"}}],
        "initContainers": [{"name": "i", "restartPolicy": "Always", "ports": []}],
        "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 80}]}]},
      "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}]}})"));
  }

  TEST_CASE("it differs with what is kept, and with nothing else") {
    const auto pod = [](const std::string& version, const std::string& heartbeat,
                        const std::string& phase) {
      return reduced(kubernetes::kPods, R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p",)"
                                        R"("resourceVersion":")" +
                                            version + R"("},"status":{"phase":")" + phase +
                                            R"(","startTime":")" + heartbeat + R"("}})")
          ->document;
    };
    CHECK(*pod("1", "x", "Running") == *pod("2", "y", "Running"));
    CHECK(*pod("1", "x", "Running") != *pod("1", "x", "Failed"));
    const auto slice = [](const std::string& when, const std::string& address) {
      return reduced(kubernetes::kEndpointSlices,
                     R"({"metadata":{"name":"s","annotations":{)"
                     R"("endpoints.kubernetes.io/last-change-trigger-time":")" +
                         when + R"("}},"endpoints":[{"addresses":[")" + address + R"("]}]})")
          ->document;
    };
    CHECK(*slice("1", "10.0.0.1") == *slice("2", "10.0.0.1"));
    CHECK(*slice("1", "10.0.0.1") != *slice("1", "10.0.0.2"));
  }

  TEST_CASE("a malformed object is kept as far as it is valid") {
    for (const char* text :
         {"{}", R"({"metadata":null,"spec":[],"status":1})",
          R"({"metadata":{"name":1,"labels":[],"annotations":{"a":1}},"spec":{"volumes":[1,{}],)"
          R"("containers":{}},"status":{"conditions":[null,{"type":7}]}})"}) {
      CAPTURE(text);
      CHECK(reduced(kubernetes::kPods, text)->key.name.empty());
      CHECK(reduced(kubernetes::kEndpointSlices, text)->labels.empty());
    }
  }
}

}  // namespace
