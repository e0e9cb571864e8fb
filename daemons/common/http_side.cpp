#include "http_side.hpp"

#include <boost/json/serialize.hpp>
#include <chrono>
#include <utility>

#include "daemons/version.hpp"
#include "osm/net/ports.hpp"
#include "osm/net/router.hpp"
#include "process.hpp"
#include "startup.hpp"

namespace osm::daemon {
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

std::string list_of(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += "- " + item + '\n';
  return text;
}

net::Response alive(const HttpSideOptions& options) {
  const std::vector<std::string> hanging = options.hanging();
  if (hanging.empty()) return net::text_response("Service is alive\n");
  return net::text_response("Service hangs:\n" + list_of(hanging), 503);
}

// A CA that does not sign is told and does not count: every replica has the same CA, and what they
// serve is needed all the more.
net::Response ready(const HttpSideOptions& options) {
  const std::vector<std::string> missing = options.missing();
  if (missing.empty()) {
    std::string text = "Service is ready\n";
    for (const Problem& problem : options.problems())
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

net::Response exposition(const HttpSideOptions& options) {
  const auto mesh = options.mesh();
  return {200,
          std::string(net::PrometheusRegistry::kContentType),
          options.runtime.registry().expose() + expose_process() +
              expose_problems(options.problems()) + (mesh ? expose_mesh(*mesh) : ""),
          {}};
}

net::Response version(const HttpSideOptions& options) {
  boost::json::object said{{"version", kVersion}, {"commit", kCommit}, {"envoy_api", kEnvoyApi}};
  if (const auto mesh = options.mesh()) {
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

}  // namespace

Result<std::unique_ptr<net::HttpServer>> start_http_side(const HttpSideOptions& options) {
  net::Router router;
  router.get("/health/alive", [options](const net::Request&) { return alive(options); })
      .get("/health/ready", [options](const net::Request&) { return ready(options); })
      .get("/metrics", [options](const net::Request&) { return exposition(options); })
      .get("/version", [options](const net::Request&) { return version(options); });
  return net::HttpServer::start(
      net::kMonitorPort.options(options.address), options.runtime.asio(), options.runtime.executor,
      [router = std::move(router), &runtime = options.runtime](const net::Request& request) {
        return measured(router, request, runtime);
      },
      options.runtime.log);
}

}  // namespace osm::daemon
