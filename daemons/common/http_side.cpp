#include "http_side.hpp"

#include <boost/json/serialize.hpp>
#include <chrono>
#include <utility>

#include "daemons/version.hpp"
#include "osm/net/router.hpp"
#include "ports.hpp"
#include "process.hpp"
#include "startup.hpp"

namespace osm::daemon {
namespace {

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
  samples.describe("osm_problem",
                   "1 for each problem with an object or source, with its severity and cause");
  for (const Problem& problem : problems) {
    samples.set("osm_problem",
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
  samples.describe("osm_mesh_info", "1, labelled with the hash of the mesh's content");
  samples.set("osm_mesh_info", {{"hash", mesh.hash}}, 1);
  return samples.expose();
}

// The names that each Prometheus client library gives to these.
std::string expose_process() {
  const ProcessUse use = process_use();
  net::PrometheusRegistry samples;
  describe_metrics(samples);
  samples.add("process_cpu_seconds_total", {}, use.cpu_seconds);
  samples.set("process_resident_memory_bytes", {}, use.resident_bytes);
  samples.set("process_open_fds", {}, use.open_descriptors);
  samples.set("process_max_fds", {}, use.max_descriptors);
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
  runtime.metrics.add("osm_http_response_total", {{"code", code}, {"path", path}}, 1);
  const std::chrono::duration<double> took = runtime.clock.steady_now() - start;
  runtime.metrics.observe("osm_http_response_duration", {{"path", path}}, took.count());
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
      kMonitorPort.options(options.address), options.runtime.asio(), options.runtime.executor,
      [router = std::move(router), &runtime = options.runtime](const net::Request& request) {
        return measured(router, request, runtime);
      },
      options.runtime.log);
}

void describe_metrics(net::PrometheusRegistry& metrics) {
  static constexpr std::pair<std::string_view, std::string_view> kHelp[] = {
      {"osm_ads_connection_bounds_met_total",
       "Times that connections to the ADS port met a bound, by bound"},
      {"osm_ca_signs", "1 while the CA signs, as far as it was asked"},
      {"osm_cert_expiry_seconds", "Seconds until a held certificate ends, the least of its kind"},
      {"osm_cert_issue_failed_count", "Certificates that could not be issued"},
      {"osm_cert_issued_count", "Certificates issued"},
      {"osm_cert_issued_time", "Seconds to issue a certificate"},
      {"osm_cert_rotated_count", "Certificates replaced by newer ones"},
      {"osm_endpoints_provider_healthy", "1 while a provider's platform answers"},
      {"osm_endpoints_provider_synced", "1 once a provider has read its first complete list"},
      {"osm_http_response_duration", "Seconds to answer a request on --http-address"},
      {"osm_http_response_total", "Answers on --http-address"},
      {"osm_injector_limited_total", "Pods refused beyond a limit of injections, by limit"},
      {"osm_injector_request_seconds", "Seconds to answer the admission of a pod, by outcome"},
      {"osm_injector_requests_total", "Admissions of pods, by outcome"},
      {"osm_log_lines_dropped_total", "Log lines that could not be written"},
      {"osm_mesh_generation", "Changes of the mesh since the start"},
      {"osm_mesh_services", "Services of the mesh"},
      {"osm_mesh_snapshot_build_seconds", "Seconds to build a snapshot of the mesh"},
      {"osm_mesh_snapshots_total", "Snapshots of the mesh published"},
      {"osm_mesh_workloads", "Workloads of the mesh"},
      {"osm_metrics_dropped_total", "Values that could not be kept, by reason"},
      {"osm_nack_total", "Configurations refused by proxies, by xDS type and kind of the object"},
      {"osm_nack_trials_total", "Trials on proxies that search for what they refuse, by outcome"},
      {"osm_problems", "Problems with objects and roots, by code and severity"},
      {"osm_provider_staleness_seconds",
       "Seconds for which what a provider says may have been out of date"},
      {"osm_propagation_seconds", "Seconds from a change until a proxy has acknowledged it"},
      {"osm_proxies_behind", "Proxies that have owed an answer for more than 10 seconds"},
      {"osm_proxy_connect_count", "Proxies connected now"},
      {"osm_proxy_requests_delayed_total", "Requests of proxies that name too much, read late"},
      {"osm_proxy_flapping_total", "Proxy certificates used from two addresses in turn"},
      {"osm_proxy_max_connections_rejected",
       "Streams refused because the replica serves maxDataPlaneConnections proxies already"},
      {"osm_proxy_reconnect_count", "Proxies that connected again"},
      {"osm_proxy_response_send_success_count", "Responses sent to proxies, by xDS type"},
      {"osm_proxy_xds_request_count", "Requests of proxies, by xDS type"},
      {"osm_push_stage_seconds", "Seconds a push spends in each stage"},
      {"osm_root_not_after_seconds", "End of a trusted root, in seconds since 1970, by root"},
      {"osm_queue_length", "Entries that wait in a queue, by queue"},
      {"osm_resources_encoded_total", "Resources translated and serialized, by xDS type"},
      {"osm_replica_staleness_seconds",
       "Seconds since this replica last proved that it reaches the API server"},
      {"osm_response_bytes_total", "Bytes of responses to proxies, by xDS type"},
      {"osm_spec_decoded_total", "Objects decoded, by kind"},
      {"osm_spec_directory_load_seconds", "Seconds to read the mesh directory"},
      {"osm_spec_file_parses_total", "Files of the mesh directory parsed"},
      {"osm_spec_file_reads_total", "Files of the mesh directory read"},
      {"osm_spec_files", "Files in the mesh directory"},
      {"osm_streams_ended_total", "Streams of served proxies that ended, by code"},
      {"osm_streams_refused_total", "Streams refused, by code"},
      {"osm_streams_stalled_total", "Streams cut because the proxy did not read"},
      {"osm_unfinished_write_bytes", "Bytes of responses that are being written to proxies"},
      {"osm_azure_requests_total", "Requests to Azure, by operation and answer"},
      {"osm_azure_services_recomputed_total",
       "Services whose Azure resources were worked out anew"},
      {"osm_dns_lookups_total", "DNS names asked for, by result"},
      {"osm_dns_services_recomputed_total", "Services whose DNS resources were worked out anew"},
      {"osm_vm_decoded_total", "VirtualMachines decoded"},
      {"osm_vm_services_recomputed_total", "Services whose machines were worked out anew"},
      {"osm_vault_healthy", "1 while Vault answers and takes the token"},
      {"osm_vault_request_seconds", "Seconds until Vault answered, by operation"},
      {"osm_vault_requests_total", "Requests to Vault, by operation and answer"},
      {"osm_vault_token_expiry_seconds", "Seconds until Vault's token ends, unless it is renewed"},
      {"osm_version_info", "1, labelled with what was built"},
      {"osm_webhook_handshakes_total", "TLS handshakes that callers of the webhook began"},
      {"process_cpu_seconds_total", "Seconds of CPU that the process used"},
      {"process_max_fds", "Limit of open file descriptors"},
      {"process_open_fds", "Open file descriptors"},
      {"process_resident_memory_bytes", "Resident memory in bytes"},
      {"process_start_time_seconds", "Start of the process, in seconds since 1970"},
  };
  for (const auto& [name, help] : kHelp) metrics.describe(name, help);
}

}  // namespace osm::daemon
