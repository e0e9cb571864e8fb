// Two meshes in one process with gRPC listening share nothing but the executor, and shutdown keeps
// its deadline. Debian's gRPC is not instrumented: not under ThreadSanitizer.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ads/grpc_client.hpp"
#include "embedding/host.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/executor.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/mesh_spec.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::embedding_test;
using namespace std::chrono_literals;

namespace {

// Names of the threads of gRPC 1.51, and of the one that accepts for each server.
constexpr std::array<std::string_view, 7> kGrpcThreads{
    "osm-ads-accept", "grpc",           "default-exec", "resolver-exec",
    "event_engine",   "nexting_thread", "timer_manager"};

// Number of threads of each name.
std::map<std::string, int> thread_names() {
  std::map<std::string, int> names;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(entry.path() / "comm"), name);
    ++names[name];
  }
  return names;
}

// A client that connects and says nothing.
class SilentClient {
 public:
  explicit SilentClient(const std::string& address) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    to.sin_port =
        ::htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  ~SilentClient() { ::close(fd_); }
  SilentClient(const SilentClient&) = delete;

 private:
  int fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

// Counts the uses of what was lent, from the end of the mesh on.
struct Lent {
  std::atomic<bool> ended = false;
  std::atomic<int> uses = 0;

  void note() { uses += ended ? 1 : 0; }
};

class LentExecutor final : public Executor {
 public:
  LentExecutor(Executor& executor, Lent& lent) : executor_(executor), lent_(lent) {}

  void post(std::function<void()> task) override {
    lent_.note();
    executor_.post(std::move(task));
  }
  Subscription post_after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    lent_.note();
    return executor_.post_after(delay, std::move(task));
  }
  bool running_in_this_thread() const override { return executor_.running_in_this_thread(); }

 private:
  Executor& executor_;
  Lent& lent_;
};

class LentSpec final : public MeshSpec {
 public:
  LentSpec(MeshSpec& spec, Lent& lent) : spec_(spec), lent_(lent) {}

  std::shared_ptr<const SpecSnapshot> snapshot() const override {
    lent_.note();
    return spec_.snapshot();
  }
  std::vector<Problem> list_problems() const override {
    lent_.note();
    return spec_.list_problems();
  }
  Subscription subscribe(std::function<void(const SpecChange& change)> on_change) override {
    lent_.note();
    return spec_.subscribe(std::move(on_change));
  }

 private:
  MeshSpec& spec_;
  Lent& lent_;
};

}  // namespace

TEST_SUITE("embedding with gRPC") {
  TEST_CASE("two meshes listen in one process, and only threads of their gRPC servers are added") {
    osm::testing::ThreadExecutor executor(2);
    const auto before = thread_names();
    Host one(executor, "one.example", "127.0.0.1:0");
    Host two(executor, "two.example", "127.0.0.1:0");
    REQUIRE(one.serves());
    REQUIRE(two.serves());
    CHECK(one.mesh->ads_address() != two.mesh->ads_address());
    // A thread has its creator's name until it gives itself its own.
    std::string others;
    CHECK(osm::testing::wait_until([&] {
      others.clear();
      for (const auto& [name, count] : thread_names()) {
        const auto known = before.find(name);
        const bool grpcs =
            std::any_of(kGrpcThreads.begin(), kGrpcThreads.end(),
                        [&](std::string_view prefix) { return name.starts_with(prefix); });
        if (!grpcs && (known == before.end() || known->second < count)) others += name + " ";
      }
      return others.empty();
    }));
    CHECK(others == "");
  }

  TEST_CASE("a port that is taken is an error that names it, and leaves nothing behind") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor, "one.example", "127.0.0.1:0");
    const auto second = start(host, host.mesh->ads_address());
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().code == ErrorCode::kUnavailable);
    CHECK(second.error().message.find(host.mesh->ads_address()) != std::string::npos);
  }

  TEST_CASE("after shutdown the manager keeps no certificate for the mesh") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor, "one.example", "127.0.0.1:0");
    auto other = start(host, "127.0.0.1:0").value();  // of the same name, over the same manager
    CHECK(host.certificates->list_certificates().size() == 1);
    CHECK(host.mesh->shutdown(5s).ok());
    CHECK(host.certificates->list_certificates().size() == 1);
    CHECK(other->shutdown(5s).ok());
    CHECK(host.certificates->list_certificates().empty());
  }

  TEST_CASE("after shutdown nothing borrowed is used, whatever is renewed or changes") {
    osm::testing::ThreadExecutor threads(2);
    Host host(threads);  // its own mesh lives on
    osm::testing::ManualClock clock(host.clock.wall_now());
    osm::testing::ManualExecutor manual(clock);
    auto ca = certificate::load_or_create_directory_ca(
        {host.directory.file("other"), host.domain, clock});
    REQUIRE(ca.ok());
    const auto certificates = certificate::make_manager(
        {*std::move(ca), {manual, manual, clock, host.rng, host.log, host.metrics}});
    const auto subject = certificate::webhook_subject(host.domain, "host", "shop");
    const auto kept = certificate::KeptCertificate::issue(*certificates, subject, 48h);
    REQUIRE(kept.ok());
    const Workload workload{{"shop", "vm"},
                            ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
                            {"shop", "app"},
                            "10.1.0.1",
                            {},
                            {}};
    host.provider.put_workload(workload);

    Lent lent;
    LentExecutor executor(threads, lent);
    LentSpec spec(host.spec, lent);
    auto mesh = ControlPlane::start(
        {.spec = spec,
         .providers = {{&host.provider}},
         .workload_providers = {&host.provider},
         .certificates = *certificates,
         .runtime = {executor, executor, host.clock, host.rng, host.log, host.metrics},
         .trust_domain = host.domain,
         .ads_address = "127.0.0.1:0"});
    REQUIRE(mesh.ok());
    REQUIRE(osm::testing::wait_until([&] { return (*mesh)->status().waiting_for.empty(); }));
    const auto proxy = certificates->issue_certificate((*mesh)->proxy_subject(workload), 1h);
    REQUIRE(proxy.ok());
    certificates->release_certificate((*proxy)->subject.common_name);
    ads_test::AdsClient client(ads_test::channel((*mesh)->ads_address(),
                                                 certificates->trust_bundle_pem(), (*proxy).get()));
    REQUIRE(client.ask(XdsType::kCluster));
    const auto holds = [&](const std::string& name) {
      manual.run_until_idle();
      return std::ranges::any_of(certificates->list_certificates(), [&](const auto& held) {
        return held->subject.common_name.str() == name;
      });
    };
    REQUIRE(osm::testing::wait_until([&] { return holds("app.shop.one.example"); }));
    REQUIRE(holds("osm-controller.osm-system"));

    static_cast<void>((*mesh)->shutdown(5s).ok());
    lent.ended = true;
    REQUIRE(certificates->list_certificates().size() == 1);
    CHECK(certificates->list_certificates().front()->subject == subject);  // the host's
    const auto before = (*kept)->load();
    manual.run_for(60h);
    CHECK((*kept)->load()->fingerprint != before->fingerprint);
    CHECK(certificates->list_certificates().size() == 1);
    host.spec.put_namespace("late");
    Endpoint endpoint;
    endpoint.address = "10.1.0.1";
    endpoint.port = Port{8080};
    endpoint.identity = {"shop", "app"};
    host.provider.set_endpoints({"shop", "one"}, {endpoint});
    CHECK(osm::testing::wait_until([&] {
      const auto found = host.mesh->catalog().list_endpoints_for_service({"shop", "one"});
      return found.ok() && !found->empty();
    }));
    CHECK(lent.uses == 0);
    (*mesh).reset();  // last
  }

  TEST_CASE("shutdown keeps its deadline though clients say nothing") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor, "one.example", "127.0.0.1:0");
    REQUIRE(host.serves());
    const SilentClient first(host.mesh->ads_address());
    const SilentClient second(host.mesh->ads_address());
    auto shut_down = std::async(std::launch::async, [&] { return host.mesh->shutdown(1s).ok(); });
    // A server that waits for its handshakes ends after 10 s, when they time out.
    CHECK(shut_down.wait_for(9s) == std::future_status::ready);
  }

  TEST_CASE("the control plane with gRPC starts and ends 100 times") {
    osm::testing::ThreadExecutor executor(2);
    { Host warm_up(executor, "one.example", "127.0.0.1:0"); }
    for (int i = 0; i < 100; ++i) {
      Host host(executor, "one.example", "127.0.0.1:0");
      REQUIRE(host.serves());
    }
  }
}
