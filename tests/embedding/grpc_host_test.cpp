// Two meshes in one process with gRPC listening share nothing but the executor, and shutdown keeps
// its deadline. Debian's gRPC is not instrumented: not under ThreadSanitizer.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "embedding/host.hpp"

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
