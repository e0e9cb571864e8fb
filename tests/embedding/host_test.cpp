// Two meshes in one process share nothing but the executor, and leave threads, signals and output
// alone.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "embedding/host.hpp"
#include "osm/certificate/request.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/values/object_status.hpp"
#include "osm/values/proxy.hpp"

using namespace osm;
using namespace osm::embedding_test;
using namespace std::chrono_literals;

namespace {

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory)) ++count;
  return count;
}
std::size_t threads() { return entries("/proc/self/task"); }
std::size_t descriptors() { return entries("/proc/self/fd"); }

// Standard output and error go to a file meanwhile.
class CapturedOutput {
 public:
  CapturedOutput() : path_(directory_.file("output")) {
    const int to = ::open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    REQUIRE(to >= 0);
    for (int fd : {1, 2}) {
      kept_[static_cast<std::size_t>(fd)] = ::dup(fd);
      ::dup2(to, fd);
    }
    ::close(to);
  }
  ~CapturedOutput() {
    for (int fd : {1, 2}) {
      ::dup2(kept_[static_cast<std::size_t>(fd)], fd);
      ::close(kept_[static_cast<std::size_t>(fd)]);
    }
  }
  std::string text() const {
    std::ifstream in(path_);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  TemporaryDirectory directory_;
  std::string path_;
  std::array<int, 3> kept_{};
};

std::vector<struct sigaction> dispositions() {
  std::vector<struct sigaction> all;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    all.push_back(action);
  }
  return all;
}

bool same(const std::vector<struct sigaction>& a, const std::vector<struct sigaction>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].sa_handler != b[i].sa_handler || a[i].sa_flags != b[i].sa_flags) return false;
  return a.size() == b.size();
}

}  // namespace

TEST_SUITE("embedding") {
  TEST_CASE("two meshes in one process share the host's executor and nothing else") {
    for (const int count : {1, 16}) {
      CAPTURE(count);
      osm::testing::ThreadExecutor executor(count);
      Host one(executor, "one.example");
      Host two(executor, "two.example");
      REQUIRE(one.serves());
      REQUIRE(two.serves());
      const auto reaches = [](const Host& host, const char* service) {
        const auto found = host.mesh->catalog().list_endpoints_for_service({"shop", service});
        return found.ok() && !found->empty();
      };
      Endpoint endpoint;
      endpoint.address = "10.1.0.1";
      endpoint.port = Port{8080};
      endpoint.identity = {"shop", "app"};
      one.provider.set_endpoints({"shop", "one"}, {endpoint});
      CHECK(osm::testing::wait_until([&] { return reaches(one, "one"); }));
      CHECK_FALSE(reaches(two, "one"));
      CHECK_FALSE(reaches(two, "two"));
      CHECK(one.certificates->trust_bundle_pem() != two.certificates->trust_bundle_pem());
      const Workload workload{{"shop", "vm"},
                              ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
                              {"shop", "app"},
                              "10.1.0.1",
                              {},
                              {}};
      const auto issue = [&](Host& host) {
        const auto made = certificate::make_request(host.mesh->proxy_subject(workload));
        REQUIRE(made.ok());
        return host.mesh->issue_proxy_certificate(workload, made->request_pem, 1h);
      };
      const auto first = issue(one);
      const auto second = issue(two);
      REQUIRE(first.ok());
      REQUIRE(second.ok());
      CHECK((*first)->subject.spiffe_id.str().starts_with("spiffe://one.example/"));
      CHECK((*second)->subject.spiffe_id.str().starts_with("spiffe://two.example/"));
      Workload pod = workload;
      pod.kind = WorkloadKind::kPod;
      CHECK(one.mesh->proxy_subject(pod).spiffe_id.str().starts_with(
          "spiffe://one.example/osm/pod/"));

      CHECK(one.mesh->shutdown(5s).ok());
      CHECK(one.mesh->shutdown(5s).ok());  // again
      two.provider.set_endpoints({"shop", "two"}, {endpoint});
      CHECK(osm::testing::wait_until([&] { return reaches(two, "two"); }));
    }
  }

  TEST_CASE("a wait on the executor's own thread is refused, and the mesh lives on") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor);
    const ObjectKey object{kinds::kTrafficTarget, "shop", "none"};
    const Workload workload{{"shop", "vm"},
                            ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
                            {"shop", "app"},
                            "10.1.0.1",
                            {},
                            {}};
    std::promise<std::vector<Error>> refused;
    executor.post([&] {
      refused.set_value({host.mesh->shutdown(1s).error(), host.mesh->object_status(object).error(),
                         host.mesh->wait_until_applied(object, 1s).error(),
                         host.mesh->config_dump("shop/vm").error(),
                         host.mesh->issue_proxy_certificate(workload, "", 1h).error()});
    });
    for (const Error& error : refused.get_future().get()) {
      CHECK(error.code == ErrorCode::kInvalidArgument);
      CHECK(error.message.find("call it on another thread") != std::string::npos);
    }
    CHECK(host.serves());
    CHECK(host.mesh->list_proxies().empty());
  }

  TEST_CASE("100 starts and ends leave no thread and no descriptor") {
    osm::testing::ThreadExecutor executor(2);
    { Host warm_up(executor); }
    const std::size_t threads_before = threads();
    const std::size_t descriptors_before = descriptors();
    for (int i = 0; i < 100; ++i) {
      Host host(executor);
      REQUIRE(host.serves());
      CHECK(threads() == threads_before);
      if (i % 2 == 0) CHECK(host.mesh->shutdown(5s).ok());  // else the destructor's
    }
    CHECK(threads() == threads_before);
    CHECK(descriptors() == descriptors_before);
  }

  TEST_CASE("the control plane ends while its start is in progress") {
    osm::testing::ThreadExecutor executor(2);
    for (int i = 0; i < 20; ++i) {
      Host host(executor);
      host.spec.put_namespace("late-" + std::to_string(i));
    }
  }

  TEST_CASE("signals, standard output and standard error stay the host's") {
    osm::testing::ThreadExecutor executor(2);
    const auto before = dispositions();
    std::string printed;
    {
      const CapturedOutput output;
      Host host(executor);
      host.serves();
      host.spec.set_problems({Problem{}});
      static_cast<void>(host.mesh->shutdown(5s).ok());
      printed = output.text();
    }
    CHECK(printed.empty());
    CHECK(same(before, dispositions()));
  }
}
