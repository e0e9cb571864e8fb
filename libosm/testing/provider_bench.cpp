#include "testing/provider_bench.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace osm::inline v1::testing {
namespace {

// Virtual time between two checks, and number of checks that prove that nothing happens.
constexpr std::chrono::milliseconds kRound{100};
constexpr int kSettleRounds = 20;

Service service_of(const ServiceName& name, std::size_t index) {
  const auto port = [](const char* port_name, std::uint16_t number) {
    return ServicePort{port_name, Port(number), std::string(port_name), Protocol::kHttp};
  };
  return {.name = name,
          .cluster_ip = "172.16." + std::to_string(index / 250) + '.' + std::to_string(index % 250),
          .headless = false,
          .selector = {},
          .ports = {port("http", 80), port("admin", 81)}};
}

}  // namespace

Endpoint endpoint_at(std::size_t n, const std::string& account) {
  ++n;
  return {.address = "10." + std::to_string(n / 62500 % 250) + '.' + std::to_string(n / 250 % 250) +
                     '.' + std::to_string(n % 250 + 1),
          .port = Port(8080),
          .service_port = "http",
          .identity = {kShop, account},
          .zone = std::nullopt,
          .weight = std::nullopt,
          .healthy = true};
}

Bench::Bench(const PlatformFactory& factory, const ConformanceOptions& options,
             std::function<void(std::string)> on_step)
    : options_(options), factory_(factory), on_step_(std::move(on_step)), party_(factory, "") {
  traits_ = party_.platform().traits();
}

Bench::~Bench() {
  step("stopping and destroying the provider");
  loop_.reset();
  for (std::thread& caller : callers_) caller.join();
}

Party& Bench::second() {
  if (!second_) second_.emplace(factory_, "-2");
  return *second_;
}

void Bench::start(const std::vector<ServiceName>& services,
                  const std::vector<EndpointsProvider*>& others) {
  step("starting the provider");
  party_.start(runtime());
  spec_.put_namespace(kShop);
  for (std::size_t i = 0; i < services.size(); ++i) spec_.put(service_of(services[i], i + 1));
  std::vector<ProviderEntry> entries{{&watch()}};
  for (EndpointsProvider* other : others) entries.push_back({other});
  loop_ = std::make_unique<catalog::MeshLoop>(
      catalog::MeshLoopOptions{.spec = spec_,
                               .providers = entries,
                               .workload_providers = {},
                               .trust_domain = TrustDomain("cluster.local"),
                               .runtime = {executor_, executor_, clock_, rng_, log_, metrics_}});
}

bool Bench::start_ready(const std::vector<ServiceName>& services,
                        const std::vector<EndpointsProvider*>& others) {
  start(services, others);
  if (!wait([this] { return watch().synced(); })) return false;
  watch().announce({});
  return wait([this] { return ready(); });
}

bool Bench::wait(const std::function<bool()>& condition) {
  const auto end = RealTime::now() + options_.deadline;
  for (;;) {
    if (condition()) return true;
    run_round();
    if (condition()) return true;
    if (RealTime::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Bench::settle() {
  for (int round = 0; round < kSettleRounds; ++round) run_round();
}

void Bench::run_round() {
  party_.platform().pump();
  if (second_) second_->platform().pump();
  executor_.run_for(kRound);
}

bool Bench::put(const ServiceName& service, const std::vector<Endpoint>& endpoints) {
  platform().set_endpoints(service, endpoints);
  return lists(service, endpoints);
}

bool Bench::lists(const ServiceName& service, const Known& expected) {
  return wait([&, sorted = sorted(expected)] { return watch().ask(service).is(sorted); });
}

bool Bench::serves(const ServiceName& service, const Known& expected) {
  watch().announce({service});
  return comes_to_serve(service, expected);
}

bool Bench::comes_to_serve(const ServiceName& service, const Known& expected) {
  return wait([&, sorted = sorted(expected)] { return served(service) == sorted; });
}

Known Bench::served(const ServiceName& service) const {
  const auto now = snapshot();
  if (!now) return std::nullopt;
  const auto entry = now->endpoints.find(service);
  if (!entry) return std::nullopt;
  return sorted(entry->endpoints);
}

ProviderStatus Bench::status() const {
  const auto all = loop_->providers();
  return all.empty() ? ProviderStatus{} : all.front();
}

std::string Bench::problem(ErrorCode code) const {
  const auto now = snapshot();
  if (!now) return {};
  for (const Problem& problem : *now->problems)
    if (problem.code == code) return problem.text();
  return {};
}

}  // namespace osm::inline v1::testing
