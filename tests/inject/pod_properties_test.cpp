// For random pods of everything that injection looks at the patch applies, probes stay reachable,
// and a second patch is empty.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <map>
#include <random>
#include <set>
#include <string>

#include "inject/json_patch.hpp"
#include "inject/json_tools.hpp"
#include "inject/pod_cases.hpp"
#include "inject/pod_names.hpp"
#include "lib/run.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

namespace json = boost::json;
using inject_test::PodCase;

class RandomPods {
 public:
  PodCase next() {
    PodCase pod;
    pod.native = chance(2);
    json::object spec;
    if (chance(2)) spec["serviceAccountName"] = "account";
    json::array containers;
    for (std::size_t i = 1 + below(4); i > 0; --i) containers.push_back(container("c"));
    spec["containers"] = containers;
    if (chance(2)) spec["initContainers"] = init_containers();
    if (chance(3)) spec["volumes"] = json::array{{{"name", "data"}, {"emptyDir", json::object{}}}};
    if (chance(5)) spec["volumes"] = nullptr;
    json::object metadata{{"creationTimestamp", nullptr}};
    if (chance(2)) metadata["labels"] = json::object{{"app/~name", "x"}};
    if (chance(2))
      metadata["annotations"] = json::object{{std::string(kOutboundPortsAnnotation), "80,81"}};
    pod.pod = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}};
    if (chance(3)) pod.config.injection.sidecar.limits = {{"cpu", "1"}};
    if (chance(3)) pod.ns.annotations[std::string(kMetricsAnnotation)] = "enabled";
    return pod;
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  bool chance(std::size_t in) { return below(in) == 0; }

  json::array init_containers() {
    json::array containers;
    for (std::size_t i = below(3); i > 0; --i) {
      json::object init = container("i");
      if (chance(2)) init["restartPolicy"] = "Always";
      containers.push_back(std::move(init));
    }
    return containers;
  }

  json::object container(const char* prefix) {
    json::object container{{"name", prefix + std::to_string(++count_)}, {"image", "x"}};
    json::array ports;
    for (std::size_t i = below(3); i > 0; --i)
      ports.push_back({{"name", "p" + std::to_string(i)}, {"containerPort", port()}});
    const bool named = !ports.empty();
    container["ports"] = std::move(ports);
    for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"})
      if (chance(2)) container[probe] = this->probe(named);
    json::object lifecycle;
    for (const char* hook : {"postStart", "preStop"})
      if (chance(4)) lifecycle[hook] = this->hook(named);
    if (!lifecycle.empty()) container["lifecycle"] = std::move(lifecycle);
    return container;
  }

  json::object hook(bool named) {
    if (chance(4)) return {{"sleep", {{"seconds", 1}}}};
    const json::value target = named && chance(2) ? json::value("p1") : json::value(port());
    return {{"httpGet", {{"port", target}, {"path", "/a?b"}}}};
  }

  std::int64_t port() { return 1 + static_cast<std::int64_t>(below(14000)); }

  json::object probe(bool named) {
    const json::value target = named && chance(2) ? json::value("p1") : json::value(port());
    json::object probe;
    switch (below(5)) {
      case 0:
        probe["exec"] = json::object{{"command", {"true"}}};
        break;
      case 1:
        probe["tcpSocket"] = json::object{{"port", target}};
        break;
      case 2:
        probe["grpc"] = json::object{{"port", port()}, {"service", "s"}};
        break;
      default:
        probe["httpGet"] = json::object{{"port", target},
                                        {"path", chance(2) ? "/a?b=\"c\"" : "x\\y: z"},
                                        {"scheme", chance(2) ? "HTTPS" : "HTTP"}};
    }
    if (chance(2)) probe["periodSeconds"] = 1 + static_cast<std::int64_t>(below(100));
    return probe;
  }

  std::mt19937_64 random_ = osm::testing::seeded();
  int count_ = 0;
};

json::object yaml_of(const std::string& text) {
  const auto documents = spec::parse_yaml(text);
  REQUIRE(documents.size() == 1);
  const auto* error = std::get_if<spec::YamlError>(&documents.front());
  REQUIRE_MESSAGE(error == nullptr, (error ? error->cause : ""), "\n", text);
  return std::get<spec::YamlDocument>(documents.front()).value.as_object();
}

// "15901/osm-liveness-probe/web" → the cluster that answers there.
std::map<std::string, std::string> served_by(const json::object& bootstrap) {
  std::map<std::string, std::string> served;
  for (const json::value& listener : bootstrap.at("static_resources").at("listeners").as_array()) {
    const std::string port =
        json::serialize(listener.at("address").at("socket_address").at("port_value"));
    const json::value& manager =
        listener.at("filter_chains").at(0).at("filters").at(0).at("typed_config");
    for (const json::value& route :
         manager.at("route_config").at("virtual_hosts").at(0).at("routes").as_array()) {
      // Without a cluster: the sidecar's own response.
      const json::value* action = route.as_object().if_contains("route");
      const auto [at, added] =
          served.emplace(port + std::string(route.at("match").at("path").as_string()),
                         action == nullptr ? "" : std::string(action->at("cluster").as_string()));
      CHECK_MESSAGE(added, at->first);
    }
    for (const json::value& filter : manager.at("http_filters").as_array()) {
      const json::object& config = filter.at("typed_config").as_object();
      const auto* percentages = config.if_contains("cluster_min_healthy_percentages");
      if (percentages == nullptr) continue;
      const auto path = config.at("headers").at(0).at("string_match").at("exact").as_string();
      const auto [at, added] = served.emplace(port + std::string(path),
                                              std::string(percentages->as_object().begin()->key()));
      CHECK_MESSAGE(added, at->first);
    }
  }
  return served;
}

// Port of the one endpoint, by cluster.
std::map<std::string, std::int64_t> cluster_ports(const json::object& bootstrap) {
  std::map<std::string, std::int64_t> ports;
  for (const json::value& cluster : bootstrap.at("static_resources").at("clusters").as_array()) {
    const json::value& endpoint =
        cluster.at("load_assignment").at("endpoints").at(0).at("lb_endpoints").at(0).at("endpoint");
    const auto [at, added] =
        ports.emplace(std::string(cluster.at("name").as_string()),
                      endpoint.at("address").at("socket_address").at("port_value").as_int64());
    CHECK_MESSAGE(added, at->first);
  }
  return ports;
}

std::int64_t resolved(const json::object& container, const json::value& port) {
  if (port.is_int64()) return port.as_int64();
  for (const json::value& declared : container.at("ports").as_array())
    if (declared.at("name") == port) return declared.at("containerPort").as_int64();
  return 0;
}

const json::object* by_name(const json::object& pod, const json::value& name) {
  for (const char* list : {"containers", "initContainers"}) {
    const json::value* containers = pod.at("spec").as_object().if_contains(list);
    if (containers == nullptr) continue;
    for (const json::value& container : containers->as_array())
      if (container.at("name") == name) return &container.as_object();
  }
  return nullptr;
}

// A probe of a container, or a hook of its lifecycle.
const json::value* handler_in(const json::object& container, std::string_view field) {
  if (field.ends_with("Probe")) return container.if_contains(field);
  const json::value* lifecycle = container.if_contains("lifecycle");
  return lifecycle == nullptr ? nullptr : lifecycle->as_object().if_contains(field);
}

// Every probe that was kubelet's to send to the container reaches it through the sidecar, and those
// that were not are as they were.
void check_probes(const json::object& before, const json::object& after,
                  const json::object& bootstrap) {
  const auto served = served_by(bootstrap);
  const auto ports = cluster_ports(bootstrap);
  for (const char* list : {"containers", "initContainers"}) {
    for (const json::value& item : after.at("spec").at(list).as_array()) {
      const json::object& container = item.as_object();
      const json::object* original = by_name(before, container.at("name"));
      for (const char* field :
           {"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"}) {
        const json::value* probe = handler_in(container, field);
        if (probe == nullptr) continue;
        CAPTURE(json::serialize(container));
        const bool ends = std::string(list) == "initContainers" &&
                          container.if_contains("restartPolicy") == nullptr;
        if (ends || !probe->as_object().contains("httpGet")) {
          CHECK(*probe == *handler_in(*original, field));
          continue;
        }
        const json::value& get = probe->at("httpGet");
        std::string path(get.at("path").as_string());
        const auto answers =
            served.find(json::serialize(get.at("port")) + path.substr(0, path.find('?')));
        REQUIRE(answers != served.end());
        if (original == nullptr) continue;  // the sidecar's own
        json::object handlers = handler_in(*original, field)->as_object();
        for (const char* handler : {"httpGet", "tcpSocket", "grpc"})
          if (const json::value* asked = handlers.if_contains(handler))
            CHECK(ports.at(answers->second) == resolved(*original, asked->at("port")));
      }
    }
  }
}

void check_no_port_twice(const json::object& pod, const json::object& bootstrap) {
  std::set<std::int64_t> sidecars;
  for (const Port port : kSidecarPorts) sidecars.insert(number(port));
  std::set<std::int64_t> declared;
  for (const char* list : {"containers", "initContainers"})
    for (const json::value& container : pod.at("spec").at(list).as_array())
      if (const json::value* ports = container.as_object().if_contains("ports"))
        for (const json::value& port : ports->as_array())
          if (sidecars.contains(port.at("containerPort").as_int64()))
            CHECK(declared.insert(port.at("containerPort").as_int64()).second);
  std::set<std::int64_t> listened;
  for (const json::value& listener : bootstrap.at("static_resources").at("listeners").as_array())
    CHECK(listened.insert(listener.at("address").at("socket_address").at("port_value").as_int64())
              .second);
}

}  // namespace

TEST_SUITE("inject, any pod") {
  TEST_CASE("the patch applies, all probes are reachable, no port is there twice, twice is once") {
    RandomPods pods;
    for (int round = 0; round < osm::testing::steps(300, 6'000); ++round) {
      PodCase pod = pods.next();
      CAPTURE(json::serialize(pod.pod));
      const PatchedPod patched = pod.patched();
      const json::object arrived =
          inject_test::apply_patch(pod.pod, json_patch(pod.pod, patched.pod));
      CHECK(arrived == patched.pod);

      const json::object bootstrap = yaml_of(inject_test::bootstrap_yaml(patched));
      check_probes(pod.pod, patched.pod, bootstrap);
      check_no_port_twice(patched.pod, bootstrap);

      pod.pod = patched.pod;
      CHECK(json_patch(pod.pod, pod.patched().pod).empty());
    }
  }
}
