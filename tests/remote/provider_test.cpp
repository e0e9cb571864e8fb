// A provider process is followed through outages, silence, wrong messages and lists beyond bounds;
// its last lists stay.
//
// A remote provider against a process that serves the protocol: real gRPC on a Unix socket.
#include "osm/remote/provider.hpp"

#include <doctest/doctest.h>

#include "remote/remote_rig.hpp"

using namespace osm;
using namespace osm::remote_test;

namespace {

struct World : Rig {
  ProviderServer server{socket()};

  World() { server.start(); }
};

Workload workload_of(const std::string& name, const std::string& address,
                     const std::string& account) {
  Workload workload;
  workload.name = {"shop", name};
  workload.proxy_id = derived_proxy_id(kDomain, workload.name);
  workload.account = {"shop", account};
  workload.address = address;
  workload.ports = {{"http", Port(8080)}};
  workload.labels = {{"app", name}};
  return workload;
}

}  // namespace

TEST_SUITE("remote::Provider") {
  TEST_CASE("it lists what the process lists, and follows every change") {
    World world;
    world.server.set(kBooks, {{endpoint_at(1)}});
    auto& provider = world.start();
    CHECK(provider.id() == "consul");
    CHECK_FALSE(provider.has_synced());
    CHECK_FALSE(provider.healthy());
    REQUIRE(world.wait_until_healthy());
    CHECK(provider.has_synced());
    CHECK(provider.list_endpoints_for_service(kBooks) == std::vector{endpoint_at(1)});
    CHECK_FALSE(provider.list_endpoints_for_service(kMusic));
    CHECK(world.announced == std::set{kBooks});
    CHECK(provider.list_problems().empty());

    const auto request = world.server.request();
    REQUIRE(request);
    CHECK(request->version() == 1);
    CHECK(request->heartbeat_seconds() == 10);
    REQUIRE(request->features_size() == 1);
    CHECK(request->features(0) == "workloads");

    Endpoint full = endpoint_at(2, "archive");
    full.zone = "b";
    full.weight = 0;
    full.healthy = false;
    world.server.set(kMusic, {{full}});
    CHECK(world.lists(kMusic, {{full}}));
    world.server.set(kBooks, std::vector<Endpoint>{});
    CHECK(world.lists(kBooks, std::vector<Endpoint>{}));
    world.server.set(kBooks, std::nullopt);
    CHECK(world.lists(kBooks, std::nullopt));
  }

  TEST_CASE("nothing of a first list is used before its end") {
    World world;
    world.server.complete_lists(false);
    world.server.set(kBooks, {{endpoint_at(1)}});
    auto& provider = world.start();
    REQUIRE(world.wait([&] { return world.server.request().has_value(); }));
    world.server.send_heartbeat();
    world.executor.run_for(1s);
    CHECK_FALSE(provider.has_synced());
    CHECK_FALSE(provider.list_endpoints_for_service(kBooks));
    world.server.complete_lists(true);
    world.server.send_heartbeat();
    CHECK(world.lists(kBooks, {{endpoint_at(1)}}));
  }

  TEST_CASE("a lost process takes no endpoint along, and the next list replaces all at once") {
    World world;
    const ServiceName kept{"shop", "kept"}, gone{"shop", "gone"}, fresh{"shop", "fresh"};
    for (const ServiceName& name : {kept, gone, kBooks}) world.server.set(name, {{endpoint_at(1)}});
    auto& provider = world.start();
    REQUIRE(world.wait_until_healthy());
    world.server.stop();
    REQUIRE(world.wait([&] { return !provider.healthy(); }));
    CHECK(provider.has_synced());
    CHECK(provider.list_endpoints_for_service(gone) == std::vector{endpoint_at(1)});
    CHECK(world.reports("provider consul: it cannot be asked"));
    CHECK(world.log.count("a provider is stale") >= 1);

    world.server.set(gone, std::nullopt);
    world.server.set(fresh, {{endpoint_at(3)}});
    world.server.set(kBooks, {{endpoint_at(2)}});
    world.server.complete_lists(false);
    world.announced.clear();
    world.server.start();
    REQUIRE(world.wait([&] { return world.server.streams() > 0; }));
    world.executor.run_for(100ms);
    CHECK_FALSE(provider.healthy());
    CHECK(provider.list_endpoints_for_service(gone) == std::vector{endpoint_at(1)});
    CHECK(world.announced.empty());
    world.server.complete_lists(true);
    world.server.send_heartbeat();
    REQUIRE(world.wait_until_healthy());
    CHECK(world.announced == std::set{kBooks, gone, fresh});
    CHECK(provider.list_endpoints_for_service(kBooks) == std::vector{endpoint_at(2)});
    CHECK_FALSE(provider.list_endpoints_for_service(gone));
    CHECK(provider.list_problems().empty());
  }

  TEST_CASE("a process that says nothing for three heartbeats is lost, and asked again") {
    World world;
    world.server.set(kBooks, {{endpoint_at(1)}});
    auto& provider = world.start();
    REQUIRE(world.wait_until_healthy());
    world.executor.run_for(29s);
    CHECK(provider.healthy());
    world.server.send_heartbeat();
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (world.executor.queued() == 0 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    world.executor.run_for(29s);
    CHECK(provider.healthy());
    world.server.complete_lists(false);  // the next call's list would make it healthy at once
    world.executor.run_for(2s);
    CHECK(world.wait([&] { return !provider.healthy(); }, 0ms));
    CHECK(provider.list_endpoints_for_service(kBooks) == std::vector{endpoint_at(1)});
    CHECK(world.problem("let it send a message every 10 s").find("deadline-exceeded") !=
          std::string::npos);
    world.server.complete_lists(true);
    world.server.send_heartbeat();
    CHECK(world.wait_until_healthy());
  }

  TEST_CASE("a process that does not reach its platform is stale") {
    World world;
    world.server.set(kBooks, {{endpoint_at(1)}});
    auto& provider = world.start();
    REQUIRE(world.wait_until_healthy());
    const int before = world.announcements;
    world.server.set_health(false);
    REQUIRE(world.wait([&] { return !provider.healthy(); }));
    CHECK(world.announcements == before + 1);
    CHECK(world.reports("it does not reach its platform"));
    CHECK(provider.list_endpoints_for_service(kBooks) == std::vector{endpoint_at(1)});
    world.server.set_health(true);
    CHECK(world.wait_until_healthy());
    CHECK(world.wait([&] { return provider.list_problems().empty(); }));
  }

  TEST_CASE("messages of another format and lists beyond the bounds end the stream only") {
    World world;
    world.options.limits.services = 3;
    world.options.limits.endpoints = 4;
    world.server.set(kBooks, {{endpoint_at(1), endpoint_at(2)}});
    auto& provider = world.start();
    REQUIRE(world.wait_until_healthy());
    std::string part, format;
    SUBCASE("too many endpoints") {
      world.server.set(kMusic, {{endpoint_at(3), endpoint_at(4), endpoint_at(5)}});
      part = "it lists 5 endpoints, more than 4: share them among several providers";
    }
    SUBCASE("too many services") {
      for (const char* name : {"a", "b", "c"})
        world.server.set(ServiceName{"shop", name}, std::vector<Endpoint>{});
      part = "it lists 4 services, more than 3";
    }
    SUBCASE("no WatchResponse") {
      world.server.send_raw("\xff\xff\xff");
      world.server.set(kMusic, std::vector<Endpoint>{});
      part = "it sent a message that is no WatchResponse";
    }
    REQUIRE(world.wait([&] { return !provider.healthy(); }));
    CHECK(world.reports(part));
    CHECK(provider.list_endpoints_for_service(kBooks) ==
          std::vector{endpoint_at(1), endpoint_at(2)});
    world.executor.run_for(5min);
    CHECK(provider.list_endpoints_for_service(kBooks) ==
          std::vector{endpoint_at(1), endpoint_at(2)});
  }

  TEST_CASE("a message larger than the bound ends the stream only") {
    World world;
    world.options.limits.message_bytes = 4096;
    world.server.set(kBooks, {{endpoint_at(1)}});
    auto& provider = world.start();
    REQUIRE(world.wait_until_healthy());
    std::vector<Endpoint> many;
    for (int n = 1; n < 200; ++n) many.push_back(endpoint_at(n));
    world.server.set(kMusic, many);
    REQUIRE(world.wait([&] { return !provider.healthy(); }));
    CHECK(world.reports("larger than max"));
    CHECK(provider.list_endpoints_for_service(kBooks) == std::vector{endpoint_at(1)});
  }

  TEST_CASE("a workload serves the services that list its address under its account") {
    World world;
    const Workload one = workload_of("one", "10.0.0.1", "books");
    world.server.set(kBooks, {{endpoint_at(1)}});
    world.server.set(one.name, one);
    auto& provider = world.start();
    REQUIRE(world.wait_until_healthy());
    Workload expected = one;
    expected.services = {kBooks};
    CHECK(provider.list_workloads() == std::vector{expected});
    CHECK(provider.find_workload(one.name) == expected);
    CHECK(world.announced_workloads == std::set{one.name});

    world.announced_workloads.clear();
    world.server.set(kMusic, {{endpoint_at(1), endpoint_at(2)}});
    expected.services = {kBooks, kMusic};
    CHECK(world.wait([&] { return provider.find_workload(one.name) == expected; }));
    CHECK(world.announced_workloads == std::set{one.name});
    world.server.set(kBooks, {{endpoint_at(1, "archive")}});
    expected.services = {kMusic};
    CHECK(world.wait([&] { return provider.find_workload(one.name) == expected; }));
    world.server.set(one.name, std::nullopt);
    CHECK(world.wait([&] { return provider.list_workloads().empty(); }));
  }

  TEST_CASE("a socket of another user's process is refused") {
    World world;
    world.server.set(kBooks, {{endpoint_at(1)}});
    world.options.user = "65533";
    auto& provider = world.start();
    CHECK(world.reports("permission-denied"));
    CHECK(world.problem("permission-denied").find("not as 65533 (field `user`)") !=
          std::string::npos);
    world.executor.run_for(1min);
    CHECK_FALSE(provider.has_synced());
    CHECK_FALSE(world.server.request());
  }

  TEST_CASE("100 lost streams in 50 s write 14 lines, and the next one counts what was left out") {
    World world;
    auto& provider = world.start();
    const auto lines = [&] { return world.log.lines_with("provider=consul"); };
    const auto wait_for = [&](bool healthy) {
      return world.wait([&] { return provider.healthy() == healthy; }, 0ms);
    };
    // Two lines for each stream: that its list is complete, and that it is lost.
    for (int i = 0; i < 100; ++i) {
      CAPTURE(i);
      if (i != 0) world.clock.advance(500ms);  // the longest delay after one failure
      REQUIRE(wait_for(true));
      world.server.end_streams();
      REQUIRE(wait_for(false));
    }
    CHECK(provider.list_problems().size() == 1);
    CHECK(lines().size() == 14);  // ten, and one for each ten of 49.5 seconds
    world.clock.advance(10s);
    REQUIRE(wait_for(true));
    REQUIRE(lines().size() == 15);
    CHECK(lines().back().message == "a provider has listed everything");
    std::size_t left_out = 0;
    for (const auto& line : lines()) left_out += std::stoul(line.fields.at("lines_left_out"));
    CHECK(left_out == 201 - 15);
  }

  TEST_CASE("it may be destroyed at any time of a call") {
    World world;
    for (int i = 0; i < 50; ++i)
      world.server.set(ServiceName{"shop", "s" + std::to_string(i)}, {{endpoint_at(i + 1)}});
    for (int steps = 0; steps < 30; ++steps) {
      world.start();
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100 * steps);
      while (std::chrono::steady_clock::now() < end) world.executor.run_one();
      world.services.reset();
      world.workloads.reset();
      world.provider.reset();
    }
    CHECK(world.wait([&] { return world.server.streams() == 0; }));
  }
}
