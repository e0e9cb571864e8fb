// A store that follows an API server, seen from outside: what changes is printed, and it is asked
// over standard input. For tests/e2e/kubernetes/client_test.py.
//
//   kubernetes_follow KUBECONFIG MESH-NAMESPACE
//   > synced                        < synced true
//   > list Service                  < list Service a/b a/c
//   > get Service a/b               < get {"apiVersion":...} or: get none
//   > problems                      < problems 1 <text of the first>
//   > catch_up Service a/b 5000     < catch_up true
//   > metric NAME KIND [REASON]     < metric 3
//                                   < changed Service a/b
#include <boost/json.hpp>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/capturing_sinks.hpp"

namespace {

std::mutex output;

void say(const std::string& line) {
  std::lock_guard lock(output);
  std::cout << line << std::endl;
}

std::string name_of(const osm::ObjectKey& key) { return key.ns + '/' + key.name; }

// "Pod": the mesh's kind of that name, or Kubernetes' own.
osm::GroupKind named(const std::string& kind) {
  for (const osm::spec::Kind& known : osm::spec::mesh_kinds())
    if (known.name.kind == kind) return known.name;
  return {kind == "EndpointSlice" ? "discovery.k8s.io" : "", kind};
}

// "a/b", of the cluster "/b".
osm::ObjectKey key_of(const std::string& kind, const std::string& name) {
  const auto slash = name.find('/');
  return {named(kind), name.substr(0, slash), name.substr(slash + 1)};
}

class Follower {
 public:
  explicit Follower(osm::kubernetes::Cluster& cluster, const std::string& ns,
                    osm::Executor& executor, const osm::Clock& clock, osm::Rng& rng,
                    osm::LogSink& log)
      : store_(
            osm::kubernetes::make_store({.cluster = cluster,
                                         .runtime = {executor, executor, clock, rng, log, metrics_},
                                         .osm_namespace = ns})),
        subscription_(store_->subscribe([](const auto& keys) {
          for (const auto& key : keys) say("changed " + key.kind + ' ' + name_of(key));
        })) {}

  void answer(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    std::string kind;
    std::string name;
    std::string reason;
    words >> verb >> kind >> name >> reason;
    std::string text = verb;
    if (verb == "synced") {
      text += store_->has_synced() ? " true" : " false";
    } else if (verb == "list") {
      text += ' ' + kind;
      for (const auto& object : store_->list(named(kind))) text += ' ' + name_of(object->key);
    } else if (verb == "get") {
      const auto object = store_->get(key_of(kind, name));
      text += ' ' + (object ? boost::json::serialize(*object->document) : "none");
    } else if (verb == "problems") {
      const auto problems = store_->list_problems();
      text += ' ' + std::to_string(problems.size());
      for (const auto& problem : problems) text += " | " + problem.text();
    } else if (verb == "catch_up") {
      const std::chrono::milliseconds timeout(std::stoi(reason));
      text += store_->catch_up(key_of(kind, name), timeout) ? " true" : " false";
    } else if (verb == "metric") {
      const double value = reason.empty()
                               ? metrics_.value(kind, {{"kind", name}})
                               : metrics_.value(kind, {{"kind", name}, {"reason", reason}});
      text += ' ' + std::to_string(value);
    }
    say(text);
  }

 private:
  osm::testing::CapturingMetrics metrics_;
  std::unique_ptr<osm::ObjectStore> store_;
  osm::Subscription subscription_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  osm::SystemClock clock;
  osm::RandomRng rng;
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::net::Threads io(1);
  osm::net::Threads blocking(1);
  std::map<std::string, std::string> environment;
  if (const char* path = std::getenv("PATH")) environment["PATH"] = path;
  auto cluster = osm::kubernetes::connect(
      {.kubeconfig = argv[1],
       .environment = environment,
       .io = io.executor(),
       .runtime = {io.executor(), blocking.executor(), clock, rng, log, metrics}});
  if (!cluster.ok()) {
    say("error " + cluster.error().text());
    return 1;
  }
  {
    Follower follower(**cluster, argv[2], blocking.executor(), clock, rng, log);
    for (std::string line; std::getline(std::cin, line);) follower.answer(line);
  }
  std::cerr << log.all_text();
}
