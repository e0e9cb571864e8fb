// Recalls, a drain and a change that empties many end streams a few at a time, and serve them
// until then.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <deque>
#include <string>

#include "ads/hub.hpp"
#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using translate_test::kClient;

namespace {

constexpr std::size_t kProxies = 35;

// Configured clients, all of one account; the first connected first.
struct Crowd : HubRig {
  Crowd() {
    for (std::size_t i = 0; i < kProxies; ++i) mesh.put(workload(id(i), kClient, {}));
    publish();
    for (std::size_t i = 0; i < kProxies; ++i) {
      proxies.emplace_back(*this, id(i), kClient);
      proxies.back().ask_for_all();
      proxies.back().settle();
    }
  }
  static ProxyId id(std::size_t i) {
    return ProxyId(fmt::format("44444444-4444-4444-8444-{:012}", i));
  }

  std::size_t ended(const std::string& word) const {
    std::size_t count = 0;
    for (const RigProxy& proxy : proxies)
      count += !proxy.open() && proxy.stream().closed->text.starts_with(word);
    return count;
  }
  // The last one, whose turn has not come, is sent a change.
  void check_served(RigProxy& proxy) {
    REQUIRE(proxy.open());
    mesh.set_endpoints({"10.1.0.77"});
    publish();
    for (RigProxy& other : proxies)
      if (other.open() && &other != &proxy) other.settle();
    const auto changes = proxy.settle();
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].type == XdsType::kEndpoint);
  }

  std::deque<RigProxy> proxies;
};

}  // namespace

TEST_SUITE("ads::Hub endings") {
  TEST_CASE_FIXTURE(Crowd,
                    "recalled proxies reconnect a few at a time, and are served until then") {
    hub.endings().recall("another key");
    CHECK(ended("recalled: ") == ads::Pacer::kBurst);
    check_served(proxies.back());
    hub.endings().recall("another key");  // those that wait are not ended earlier
    CHECK(ended("recalled: ") == ads::Pacer::kBurst);
    executor.run_for(ads::Pacer::kTurn);
    CHECK(ended("recalled: ") >= 2 * ads::Pacer::kBurst);
    CHECK(ended("recalled: ") <= 3 * ads::Pacer::kBurst);
    executor.run_for(1s);
    CHECK(ended("recalled: ") == kProxies);
    RigProxy again(*this, id(0), kClient);
    CHECK(again.open());
  }

  // The end of the one lets the hub look at the other, whose clusters are all gone by then.
  TEST_CASE_FIXTURE(HubRig, "certificates that end together end all of their streams") {
    mesh.allow(true);
    auto entry = workload(kClientId, kClient, {});
    entry.dns = true;  // it keeps a listener without any permission
    mesh.put(entry);
    publish();
    const auto life = 4s + ads::Session::kExpandedBound;
    RigProxy server(*this, kServerId, translate_test::kServer, "10.0.0.2", life);
    RigProxy client(*this, kClientId, kClient, "10.0.0.1", life);
    server.ask(XdsType::kCluster);
    server.settle();
    client.ask_for_all();
    client.settle();
    clock.advance(4s);
    executor.run_until_idle();
    mesh.allow(false);
    publish();
    while (client.stream().writing) client.finish_write();  // it answers nothing
    for (int i = 0; i < 12; ++i) {
      clock.advance(1s);
      executor.run_until_idle();
    }
    CHECK_FALSE(server.open());
    CHECK_FALSE(client.open());
  }

  TEST_CASE_FIXTURE(Crowd, "a drain admits nobody, ends all within its window, and says when") {
    int done = 0;
    hub.endings().drain(10s, [&] { ++done; });
    CHECK(ended("shutting-down") == ads::Pacer::kBurst);
    check_served(proxies.back());
    RigProxy late(*this, id(0), kClient);
    REQUIRE_FALSE(late.open());
    CHECK(late.stream().closed->code == ads::CloseCode::kUnavailable);
    CHECK(late.stream().closed->text == "shutting-down");
    CHECK(done == 0);
    proxies[kProxies - 2].hang_up();
    executor.run_for(10s);
    CHECK(ended("shutting-down") == kProxies - 1);
    CHECK(done == 1);
  }

  TEST_CASE_FIXTURE(Crowd, "a change that empties many ends their streams a few at a time") {
    mesh.allow(false);
    publish();
    CHECK(ended("emptied: ") == ads::Pacer::kBurst);
    CHECK(hub.progress({{kClient.ns, id(0)}}).size() == 1);  // it is about to return
    executor.run_for(5s);
    CHECK(ended("emptied: ") == kProxies);
  }
}
