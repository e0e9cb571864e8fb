#include "osm/host/health.hpp"

#include <boost/json/serialize.hpp>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "host/process_use.hpp"
#include "osm/net/http_server.hpp"
#include "osm/net/ports.hpp"
#include "osm/net/router.hpp"

namespace osm::inline v1::host {
namespace {

constexpr Gauge kProblem{"osm_problem",
                         "1 for each problem with an object or source, with its severity and cause",
                         {"code", "severity", "file", "line", "object", "field", "cause"}};
constexpr Gauge kMeshInfo{
    "osm_mesh_info", "1, labelled with the hash of the mesh's content", {"hash"}};
constexpr Counter kProcessCpu{"process_cpu_seconds_total", "Seconds of CPU that the process used"};
constexpr Gauge kProcessResidentMemoryBytes{"process_resident_memory_bytes",
                                            "Resident memory in bytes"};
constexpr Gauge kProcessOpenFds{"process_open_fds", "Open file descriptors"};
constexpr Gauge kProcessMaxFds{"process_max_fds", "Limit of open file descriptors"};
constexpr Counter kHttpResponse{
    "osm_http_response_total", "Answers on --http-address", {"code", "path"}};
constexpr Histogram kHttpResponseDuration{
    "osm_http_response_duration", "Seconds to answer a request on --http-address", {"path"}};

constexpr Gauge kVersionInfo{
    "osm_version_info", "1, labelled with what was built", {"version", "git_commit"}};
constexpr Gauge kProcessStartTime{"process_start_time_seconds",
                                  "Start of the process, in seconds since 1970"};

// The part that is asked: first the start, then the one that is followed.
class Shown {
 public:
  explicit Shown(const HealthOptions& options) : options_(options) {}

  const HealthOptions& options() const { return options_; }

  void follow(const Monitored* part) {
    const std::unique_lock lock(mutex_);
    followed_ = part;
  }
  // Another part may be followed meanwhile.
  void unfollow(const Monitored* part) {
    const std::unique_lock lock(mutex_);
    if (followed_ == part) followed_ = nullptr;
  }

  std::vector<std::string> missing() const {
    const std::shared_lock lock(mutex_);
    return asked().missing();
  }
  std::vector<Problem> problems() const {
    const std::shared_lock lock(mutex_);
    return asked().problems();
  }
  std::optional<MeshVersion> mesh() const {
    const std::shared_lock lock(mutex_);
    return asked().mesh();
  }
  std::vector<std::string> hanging() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> parts = asked().hanging();
    if (followed_ == nullptr) return parts;
    for (std::string& lane : options_.runtime.lanes().hanging()) parts.push_back(std::move(lane));
    return parts;
  }

 private:
  const Monitored& asked() const { return followed_ != nullptr ? *followed_ : options_.start; }

  const HealthOptions options_;
  mutable std::shared_mutex mutex_;
  const Monitored* followed_ = nullptr;  // guarded by mutex_; null: the start is asked
};

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += "- " + item + '\n';
  return text;
}

net::Response alive(const Shown& shown) {
  const std::vector<std::string> hanging = shown.hanging();
  if (hanging.empty()) return net::text_response("Service is alive\n");
  return net::text_response("Service hangs:\n" + list_of(hanging), 503);
}

net::Response ready(const Shown& shown) {
  const std::vector<std::string> missing = shown.missing();
  if (missing.empty()) {
    std::string text = "Service is ready\n";
    for (const Problem& problem : shown.problems())
      if (problem.path == kAuthority) text += "- in spite of " + problem.text() + '\n';
    return net::text_response(std::move(text));
  }
  return net::text_response("Service is not ready. Waiting for:\n" + list_of(missing), 503);
}

constexpr std::size_t kMaxProblemSamples = 500;

// One sample for each problem, made anew every time: a resolved one leaves no series behind.
std::string expose_problems(std::vector<Problem> problems) {
  if (problems.size() > kMaxProblemSamples) problems.resize(kMaxProblemSamples);
  net::PrometheusRegistry samples;
  for (const Problem& problem : problems) {
    samples.set(kProblem,
                {{"code", error_code_text(problem.code)},
                 {"severity", severity_text(severity_of(problem.code))},
                 {"file", problem.path},
                 {"line", std::to_string(problem.line)},
                 {"object", problem.object.str()},
                 {"field", problem.field},
                 {"cause", problem.cause}},
                1);
  }
  return samples.expose();
}

// The hash is a label, so each exposition has the newest one only.
std::string expose_mesh(const MeshVersion& mesh) {
  net::PrometheusRegistry samples;
  samples.set(kMeshInfo, {{"hash", mesh.hash}}, 1);
  return samples.expose();
}

// The names that each Prometheus client library gives to these.
std::string expose_process() {
  const ProcessUse use = process_use();
  net::PrometheusRegistry samples;
  samples.add(kProcessCpu, {}, use.cpu_seconds);
  samples.set(kProcessResidentMemoryBytes, {}, use.resident_bytes);
  samples.set(kProcessOpenFds, {}, use.open_descriptors);
  samples.set(kProcessMaxFds, {}, use.max_descriptors);
  return samples.expose();
}

net::Response exposition(const Shown& shown) {
  const auto mesh = shown.mesh();
  return {200,
          std::string(net::PrometheusRegistry::kContentType),
          shown.options().runtime.registry().expose() + expose_process() +
              expose_problems(shown.problems()) + (mesh ? expose_mesh(*mesh) : ""),
          {}};
}

net::Response version(const Shown& shown) {
  boost::json::object said{{"version", shown.options().version},
                           {"commit", shown.options().commit},
                           {"envoy_api", "v3"}};
  if (const auto mesh = shown.mesh()) {
    said["replica"] = mesh->replica;
    said["generation"] = mesh->generation;
    said["mesh_hash"] = mesh->hash;
    said["stale"] = mesh->stale;
    said["admits"] = mesh->admits;
  }
  return net::json_response(boost::json::serialize(said) + '\n');
}

// Counts and times the requests to `router`.
net::Response measured(const net::Router& router, const net::Request& request, Runtime& runtime) {
  const SteadyTime start = runtime.clock.steady_now();
  net::Response response = router(request);
  // Strangers choose paths: those that lead nowhere share one label.
  const std::string path = response.status == 404 ? "other" : request.path;
  const std::string code = std::to_string(response.status);
  runtime.metrics.add(kHttpResponse, {{"code", code}, {"path", path}}, 1);
  runtime.metrics.observe(kHttpResponseDuration, {{"path", path}},
                          runtime.clock.steady_now() - start);
  return response;
}

class HealthServer final : public Health {
 public:
  explicit HealthServer(const HealthOptions& options) : shown_(std::make_shared<Shown>(options)) {}

  Status serve();
  net::Address address() const override { return server_->address(); }
  Subscription follow(const Monitored& part) override {
    shown_->follow(&part);
    return Subscription(std::shared_ptr<void>(
        shown_.get(), [shown = shown_, asked = &part](void*) { shown->unfollow(asked); }));
  }
  Status stop(std::chrono::milliseconds deadline) override { return server_->stop(deadline); }

 private:
  const std::shared_ptr<Shown> shown_;
  std::unique_ptr<net::HttpServer> server_;
};

Status HealthServer::serve() {
  const HealthOptions& options = shown_->options();
  OwnRuntime& runtime = options.runtime;
  runtime.metrics.set(kVersionInfo, {{"version", options.version}, {"git_commit", options.commit}},
                      1);
  runtime.metrics.set(kProcessStartTime, {}, runtime.clock.wall_now().time_since_epoch());
  const Shown& shown = *shown_;
  net::Router router;
  router.get("/health/alive", [&shown](const net::Request&) { return alive(shown); })
      .get("/health/ready", [&shown](const net::Request&) { return ready(shown); })
      .get("/metrics", [&shown](const net::Request&) { return exposition(shown); })
      .get("/version", [&shown](const net::Request&) { return version(shown); });
  OSM_TRY(server_, net::HttpServer::start(
                       net::kMonitorPort.options(options.address), runtime.asio(), runtime.executor,
                       [router = std::move(router), &runtime](const net::Request& request) {
                         return measured(router, request, runtime);
                       },
                       runtime.log));
  return {};
}

}  // namespace

Result<std::unique_ptr<Health>> Health::start(const HealthOptions& options) {
  auto health = std::make_unique<HealthServer>(options);
  OSM_TRY(health->serve());
  return std::unique_ptr<Health>(std::move(health));
}

}  // namespace osm::inline v1::host
