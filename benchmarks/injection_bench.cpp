// One core answers 50 admissions per second with a p99 of 50 ms, and memory stays flat.
//
// Admissions of pods: how many a second one core answers, what the slowest hundredth waits, and
// whether memory stays flat. One thread asks; certificates are really issued; Secrets are counted
// in place of an API server, whose time is not the injector's.
//
//   injection_bench [--admissions N] [--gate]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "counting_sinks.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/inject/injector.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/thread_executor.hpp"
#include "process_usage.hpp"
#include "temporary_directory.hpp"

namespace osm::bench {
namespace {

namespace json = boost::json;

// Limits: admissions per second, and memory and objects that one admission may leave.
constexpr double kLeastPerCoreSecond = 50;
constexpr double kMostP99Ms = 50;
constexpr double kMostGrowthBytes = 1024.0 * 1024;
constexpr std::size_t kMostAnswerBytes = 16 * 1024;
constexpr std::size_t kMostSecretBytes = 32 * 1024;

// A pod of two containers with three probes each, as people write them.
json::object pod() {
  const auto container = [](const char* name, int port) {
    json::object fields{{"name", name},
                        {"image", "registry.example.org/app:1"},
                        {"ports", {{{"name", "http"}, {"containerPort", port}}}},
                        {"env", {{{"name", "A"}, {"value", std::string(500, 'a')}}}}};
    for (const char* probe : {"livenessProbe", "readinessProbe"})
      fields[probe] = json::object{{"httpGet", {{"path", "/healthz"}, {"port", "http"}}}};
    fields["startupProbe"] = json::object{{"tcpSocket", {{"port", port}}}};
    return fields;
  };
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"generateName", "web-"}, {"labels", {{"app", "web"}}}}},
          {"spec",
           {{"serviceAccountName", "web"},
            {"containers", {container("web", 8080), container("files", 8081)}}}}};
}

std::string review(std::size_t number) {
  return json::serialize(
      json::object{{"apiVersion", "admission.k8s.io/v1"},
                   {"kind", "AdmissionReview"},
                   {"request",
                    {{"uid", "request-" + std::to_string(number)},
                     {"operation", "CREATE"},
                     {"namespace", "shop"},
                     {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                     {"object", pod()}}}});
}

class Bench {
 public:
  Status start() {
    OSM_TRY(auto issuer,
            certificate::load_or_create_directory_ca({.directory = directory_.path + "/ca",
                                                      .trust_domain = TrustDomain("cluster.local"),
                                                      .clock = clock_}));
    manager_ = certificate::make_manager(
        {.issuer = std::move(issuer),
         .runtime = {executor_, executor_, clock_, rng_, log_, metrics_}});
    injector_ = inject::make_injector(
        {.certificates = *manager_,
         .find_namespace = [](const std::string& name) -> Result<inject::InjectionNamespace> {
           return inject::InjectionNamespace{name,
                                             {{"openservicemesh.io/monitored-by", "osm"}},
                                             {{"openservicemesh.io/sidecar-injection", "enabled"}}};
         },
         .mesh_config = []() -> Result<MeshConfig> { return MeshConfig{}; },
         .write_secret =
             [this](const inject::BootstrapSecret& secret) {
               ++secrets_;
               for (const auto& file : secret.files) secret_bytes_ += file.content.size();
               return Status{};
             },
         .runtime = {executor_, executor_, clock_, rng_, log_, metrics_},
         .limits = {.per_second = 1 << 20, .per_second_per_namespace = 1 << 20},
         .envoy_image = "envoy:1",
         .init_container_image = "init:1",
         .native_sidecars = [] { return true; }});
    return {};
  }

  // Result: whether everything is as it should be.
  bool run(std::size_t admissions) {
    // Warm-up: objects that are built once exist after half a thousand admissions.
    for (std::size_t i = 0; i < 500; ++i) admit(i);
    waited_ms_.clear();
    waited_ms_.reserve(admissions);
    secrets_ = secret_bytes_ = answer_bytes_ = refused_ = 0;
    const double resident = resident_bytes();
    const double cpu = cpu_seconds();
    for (std::size_t i = 0; i < admissions; ++i) admit(1000 + i);
    return report(admissions, cpu_seconds() - cpu, resident_bytes() - resident);
  }

 private:
  void admit(std::size_t number) {
    const std::string body = review(number);
    const auto start = std::chrono::steady_clock::now();
    const AdmissionAnswer answer = injector_->review(body);
    const std::chrono::duration<double, std::milli> waited =
        std::chrono::steady_clock::now() - start;
    waited_ms_.push_back(waited.count());
    answer_bytes_ += answer.body.size();
    if (answer.body.find("\"patch\"") == std::string::npos) ++refused_;
  }

  double waited(double share) {
    const auto at = waited_ms_.begin() +
                    static_cast<std::ptrdiff_t>(share * static_cast<double>(waited_ms_.size() - 1));
    std::nth_element(waited_ms_.begin(), at, waited_ms_.end());
    return *at;
  }

  bool report(std::size_t admissions, double cpu, double grown) {
    const double per_second = static_cast<double>(admissions) / cpu;
    const double p99 = waited(0.99);
    std::cout << admissions << " admissions: " << static_cast<int>(per_second)
              << " per second of one core, p50 " << waited(0.5) << " ms, p99 " << p99
              << " ms, memory grown by " << static_cast<std::int64_t>(grown) / 1024 << " kB, "
              << answer_bytes_ / admissions << " bytes of answer and " << secret_bytes_ / admissions
              << " of Secret each\n";
    bool good = true;
    const auto expect = [&good](bool holds, const char* what) {
      if (!holds) std::cout << "NOT AS IT SHOULD BE: " << what << '\n';
      good = good && holds;
    };
    expect(refused_ == 0, "every pod is injected");
    expect(secrets_ == admissions, "one Secret for each");
    expect(manager_->list_certificates().empty(), "no certificate is kept");
    expect(answer_bytes_ / admissions <= kMostAnswerBytes, "answers are small");
    expect(secret_bytes_ / admissions <= kMostSecretBytes, "Secrets are small");
    expect(grown <= kMostGrowthBytes, "memory is flat");
    expect(per_second >= kLeastPerCoreSecond, "50 per second and core");
    expect(p99 <= kMostP99Ms, "p99 of 50 ms");
    return good;
  }

  TemporaryDirectory directory_;
  const SystemClock clock_;
  RandomRng rng_;
  WarningLog log_;
  CountingMetrics metrics_;
  testing::ThreadExecutor executor_{1};
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<inject::Injector> injector_;
  std::vector<double> waited_ms_;
  std::size_t secrets_ = 0;
  std::size_t secret_bytes_ = 0;
  std::size_t answer_bytes_ = 0;
  std::size_t refused_ = 0;
};

}  // namespace
}  // namespace osm::bench

int main(int argc, char** argv) {
  std::size_t admissions = 10'000;
  bool gate = false;
  CLI::App app{"Admissions of pods: per second and core, p99, memory"};
  app.add_option("--admissions", admissions, "How many")->capture_default_str();
  app.add_flag("--gate", gate, "1 when something is not as it should be");
  CLI11_PARSE(app, argc, argv);
  osm::bench::Bench bench;
  if (const osm::Status started = bench.start(); !started.ok()) {
    std::cerr << started.error().text() << '\n';
    return 1;
  }
  return bench.run(std::max<std::size_t>(admissions, 1)) || !gate ? 0 : 1;
}
