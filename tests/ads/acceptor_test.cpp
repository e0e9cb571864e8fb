// Connections to the ADS port are bounded, and are accepted again after descriptors ran out.
//
// The acceptor with real sockets, without gRPC.
#include "ads/acceptor.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "ads/connection_table.hpp"
#include "base/numbers.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using osm::testing::wait_until;

namespace {

class Client {
 public:
  explicit Client(const std::string& address) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(*number_of<std::uint16_t>(address.substr(address.rfind(':') + 1)));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;

  // The acceptor has closed this connection.
  bool is_closed() const {
    pollfd asked{fd_, POLLIN, 0};
    char byte = 0;
    return ::poll(&asked, 1, 0) == 1 && ::recv(fd_, &byte, 1, MSG_DONTWAIT) <= 0;
  }

 private:
  int fd_;
};

struct World {
  osm::testing::ManualClock clock;
  RandomRng rng{osm::testing::seed()};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  osm::testing::ThreadExecutor executor{1};
  std::mutex mutex;
  std::vector<int> taken;  // in place of gRPC
  std::unique_ptr<ads::Acceptor> acceptor;
  std::vector<std::unique_ptr<Client>> clients;

  explicit World(const ConnectionLimits& limits, const std::string& address = "127.0.0.1:0") {
    auto made = ads::Acceptor::listen({.address = address,
                                       .limits = limits,
                                       .runtime = runtime(),
                                       .hand_over = [this](int, int connection) {
                                         const std::lock_guard lock(mutex);
                                         taken.push_back(connection);
                                       }});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    acceptor = *std::move(made);
    acceptor->run();
  }
  ~World() {
    acceptor->stop();
    for (const int fd : taken) ::close(fd);
  }

  Runtime runtime() { return {executor, executor, clock, rng, log, metrics}; }
  void connect() { clients.push_back(std::make_unique<Client>(acceptor->address())); }
  std::size_t accepted() {
    const std::lock_guard lock(mutex);
    return taken.size();
  }
  double met(std::string_view bound) const {
    return metrics.value("osm_ads_connection_bounds_met_total", {{"bound", bound}});
  }
  // Time stands still but for this: the bounds' pauses pass.
  bool comes_to(std::size_t count) {
    return wait_until([&] {
      clock.advance(std::chrono::milliseconds(1));
      return accepted() == count;
    });
  }
  void verify(std::size_t index) { acceptor->verified(ads::remote_address(taken.at(index)).str()); }
  void close(std::size_t index) {
    const std::lock_guard lock(mutex);
    ::close(taken.at(index));
    taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(index));
  }
  std::size_t closed() const {
    return static_cast<std::size_t>(std::count_if(
        clients.begin(), clients.end(), [](const auto& client) { return client->is_closed(); }));
  }
};

// Lets the process open no further descriptor while it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::fcntl(0, F_DUPFD, 0);
    ::close(next);
    const rlimit now{static_cast<rlim_t>(next), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_SUITE("ads::Acceptor") {
  TEST_CASE("beyond the bound of one address, connections without a certificate are closed") {
    World world({.unverified_per_address = 3});
    for (int i = 0; i < 5; ++i) world.connect();
    CHECK(wait_until([&] { return world.closed() == 2; }));
    CHECK(world.accepted() == 3);
    CHECK(world.met("unverified-per-address") == 2);
    CHECK(world.log.count("bound=unverified-per-address of ipv4:127.0.0.1") == 2);

    world.verify(0);  // one of them is a proxy: it does not count any more
    world.connect();
    CHECK(world.comes_to(4));
    world.close(1);  // and one has left
    world.clock.advance(std::chrono::seconds(1));
    world.connect();
    CHECK(world.comes_to(4));
    CHECK(world.closed() == 3);
  }

  TEST_CASE("without a bound per address, all of one address are accepted") {
    World world({.unverified_per_address = 0});
    for (int i = 0; i < 300; ++i) world.connect();
    CHECK(world.comes_to(300));
  }

  TEST_CASE(
      "beyond a bound of all, connections wait until others have left or shown a certificate") {
    SUBCASE("connections without a certificate") {
      World world({.unverified = 2});
      for (int i = 0; i < 2; ++i) world.connect();
      CHECK(world.comes_to(2));
      CHECK(world.met("unverified") == 0);  // nobody waits yet
      world.connect();
      CHECK(wait_until([&] { return world.met("unverified") > 0; }));
      CHECK(world.accepted() == 2);
      CHECK(world.closed() == 0);
      world.verify(0);
      CHECK(world.comes_to(3));
    }
    SUBCASE("all connections") {
      World world({.connections = 2});
      for (int i = 0; i < 3; ++i) world.connect();
      CHECK(world.comes_to(2));
      world.verify(0);
      world.verify(1);
      CHECK(wait_until([&] { return world.met("connections") > 0; }));
      CHECK(world.accepted() == 2);
      world.close(0);
      CHECK(world.comes_to(2));
    }
    SUBCASE("connections in a second") {
      World world({.accepts_per_second = 2});
      for (int i = 0; i < 3; ++i) world.connect();
      CHECK(wait_until([&] { return world.accepted() == 2; }));
      world.clock.advance(std::chrono::milliseconds(400));
      CHECK(world.accepted() == 2);
      world.clock.advance(std::chrono::milliseconds(200));
      CHECK(wait_until([&] { return world.accepted() == 3; }));
    }
  }

  TEST_CASE("it accepts again after descriptors ran out, and health says so meanwhile") {
    World world({});
    world.connect();
    REQUIRE(world.comes_to(1));
    auto waiting = std::make_unique<NoDescriptors>();
    // A client's descriptor is needed: one is released for it.
    world.clients.clear();
    world.connect();
    CHECK(wait_until([&] { return world.log.count("cannot accept a connection") == 1; }));
    CHECK(world.acceptor->health().ok());  // for a moment is no failure
    CHECK(wait_until([&] {
      world.clock.advance(std::chrono::seconds(1));
      return !world.acceptor->health().ok();
    }));
    CHECK(world.acceptor->health().error().message.find("Too many open files") !=
          std::string::npos);
    CHECK(world.accepted() == 1);
    waiting.reset();
    CHECK(world.comes_to(2));
    CHECK(wait_until([&] { return world.acceptor->health().ok(); }));
  }

  TEST_CASE("both families reach 0.0.0.0 and [::]") {
    for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
      World world({}, address);
      world.connect();
      CHECK(world.comes_to(1));
      CHECK(ads::remote_address(world.taken.front()).host == "ipv4:127.0.0.1");
    }
  }

  TEST_CASE("a thread that hangs is a failure") {
    World world({});
    CHECK(world.acceptor->health().ok());
    std::unique_lock lock(world.mutex);  // hand_over waits for it
    world.clients.push_back(std::make_unique<Client>(world.acceptor->address()));
    CHECK(wait_until([&] {
      world.clock.advance(std::chrono::seconds(11));
      return !world.acceptor->health().ok();
    }));
    lock.unlock();
    CHECK(wait_until([&] { return world.acceptor->health().ok(); }));
  }

  TEST_CASE("bounds that would let nobody in are refused") {
    for (const ConnectionLimits& limits :
         {ConnectionLimits{.unverified = 0}, ConnectionLimits{.accepts_per_second = 0}}) {
      World valid({});
      const auto refused = ads::Acceptor::listen({.address = "127.0.0.1:0",
                                                  .limits = limits,
                                                  .runtime = valid.runtime(),
                                                  .hand_over = [](int, int) {}});
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    }
  }
}
