// Streams are admitted, superseded, limited and closed, and a change is written only to those it
// concerns.
#include "ads/hub.hpp"

#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"
#include "osm/resource_hook.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::CloseCode;
using ads::Response;
using translate_test::kClient;
using translate_test::kServer;
using translate_test::kServerService;

namespace {

const ProxyId kOtherId{"33333333-3333-4333-8333-333333333333"};

// Closed with `code`, and a text that starts with the stable word.
void check_closed(const RigProxy& proxy, CloseCode code, const std::string& word, bool cut) {
  REQUIRE(proxy.stream().closed);
  CHECK(proxy.stream().closed->code == code);
  CHECK(proxy.stream().closed->text.find(word + ": ") == 0);
  CHECK(proxy.stream().closed->cut == cut);
}

std::vector<std::string> names_of(const Response& response) {
  std::vector<std::string> names;
  for (const auto& resource : response.resources) names.push_back(resource->name);
  return names;
}

}  // namespace

TEST_SUITE("ads::Hub admission") {
  TEST_CASE("a workload that appears while its proxy waits is admitted and answered") {
    HubRig rig;
    RigProxy proxy(rig, kOtherId, kClient);
    proxy.ask(XdsType::kCluster);
    rig.executor.run_for(4s);
    CHECK(proxy.stream().writes.empty());
    CHECK(rig.registry.connected().empty());
    rig.mesh.put(workload(kOtherId, kClient, {}));
    rig.publish();
    CHECK(proxy.settle().size() == 1);
    CHECK(rig.registry.connected().contains(kOtherId));
    rig.executor.run_for(10s);
    CHECK(proxy.open());
  }

  TEST_CASE("a workload that does not appear is waited for five seconds") {
    HubRig rig;
    RigProxy proxy(rig, kOtherId, kClient);
    rig.executor.run_for(4999ms);
    CHECK(proxy.open());
    rig.executor.run_for(1ms);
    check_closed(proxy, CloseCode::kUnavailable, "unknown-proxy", false);
    const auto told = rig.log.lines_with("a stream is refused");
    REQUIRE(told.size() == 1);
    CHECK(told[0].level == LogLevel::kWarning);
    CHECK(told[0].fields.at("code") == "unknown-proxy");
  }

  TEST_CASE("a hook that fails at first is called again, and its proxies are configured then") {
    struct FailingHook final : ResourceHook {
      Status apply(const ProxyGroup&, EnvoyResources&) const override {
        if (fails) return Error{ErrorCode::kUnavailable, "not yet"};
        return {};
      }
      bool fails = true;
    } hook;
    HubRig rig({}, &hook);
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask_for_all();
    CHECK(proxy.settle().empty());
    rig.mesh.set_endpoints({"10.1.0.9"});  // there is nothing yet that they could be merged into
    rig.publish();
    CHECK(proxy.settle().empty());
    rig.executor.run_for(60s);
    CHECK(rig.log.count("resources were left out of a proxy's configuration") == 1);

    hook.fails = false;
    rig.executor.run_for(6s);
    CHECK(proxy.settle().size() >= 5);

    hook.fails = true;  // later it keeps what it has, also while endpoints change
    rig.hub.on_hook_changed();
    rig.mesh.set_endpoints({"10.1.0.10"});
    rig.publish();
    CHECK(proxy.settle().empty());
    hook.fails = false;
    rig.executor.run_for(6s);
    CHECK(proxy.settle().size() == 1);
  }

  TEST_CASE("refusals are counted, and cannot flood the log") {
    HubRig rig;
    for (int i = 0; i < 100; ++i) {
      RigProxy proxy(rig, kOtherId, kClient);
      rig.executor.run_for(20ms);
    }
    rig.executor.run_for(10s);
    RigProxy last(rig, kOtherId, kClient);
    rig.executor.run_for(10s);
    const auto told = rig.log.lines_with("a stream is refused");
    CHECK(told.size() < 15);
    std::size_t left_out = 0;
    for (const auto& line : told) left_out += std::stoul(line.fields.at("left_out"));
    CHECK(left_out > 0);
    CHECK(rig.metrics.sum("osm_streams_refused_total") >= 99);
  }

  TEST_CASE("a replica that serves as many proxies as MeshConfig allows refuses the next") {
    HubRig rig;
    rig.mesh.put(workload(kOtherId, kClient, {}));
    rig.mesh.set_max_proxies(1);
    rig.publish();
    CHECK_FALSE(rig.hub.admission().full());
    RigProxy first(rig, kClientId, kClient);
    CHECK(rig.hub.admission().full());
    RigProxy second(rig, kOtherId, kClient);
    check_closed(second, CloseCode::kResourceExhausted, "unavailable", false);
    CHECK(rig.metrics.value("osm_proxy_max_connections_rejected") == 1);
    RigProxy first_again(rig, kClientId, kClient);  // takes its own place
    CHECK(first_again.open());
    CHECK(rig.hub.admission().full());
    rig.mesh.set_max_proxies(2);
    rig.publish();
    CHECK_FALSE(rig.hub.admission().full());
    RigProxy third(rig, kOtherId, kClient);
    CHECK(third.open());
    rig.mesh.set_max_proxies(1);  // nobody who is served is cut
    rig.publish();
    CHECK(first_again.open());
    CHECK(third.open());
    third.hang_up();
    CHECK(rig.hub.admission().full());
    first_again.hang_up();
    CHECK_FALSE(rig.hub.admission().full());
  }

  TEST_CASE("a workload that vanishes takes its stream with it") {
    HubRig rig;
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask_for_all();
    proxy.settle();
    rig.mesh.remove_workload({kClient.ns, kClientId});
    rig.publish();
    check_closed(proxy, CloseCode::kUnavailable, "unknown-proxy", false);
    CHECK(rig.registry.connected().empty());
  }

  TEST_CASE("a workload that changes its services gets the resources of its new class") {
    HubRig rig;
    RigProxy proxy(rig, kServerId, kServer);
    RigProxy bystander(rig, kClientId, kClient);
    proxy.ask(XdsType::kListener);
    bystander.ask_for_all();
    REQUIRE(proxy.settle().size() == 1);
    bystander.settle();
    const std::size_t before = proxy.stream().writes.back().resources.size();
    CHECK(names_of(proxy.stream().writes.back()) == std::vector<std::string>{"inbound-listener"});
    rig.mesh.put(workload(kServerId, kServer, {}));
    rig.publish();
    rig.executor.run_for(6s);  // its port has left
    // Nothing inbound is left: never pushed empty, told when it asks again.
    check_closed(proxy, CloseCode::kUnavailable, "emptied", false);
    RigProxy again(rig, kServerId, kServer);
    again.ask(XdsType::kListener);
    REQUIRE(again.settle().size() == 1);
    CHECK(again.stream().writes.back().resources.empty());
    rig.mesh.put(workload(kServerId, kServer, {kServerService}));
    rig.publish();
    REQUIRE(again.settle().size() == 1);
    CHECK(again.stream().writes.back().resources.size() == before);
    CHECK(bystander.settle().empty());
  }

  TEST_CASE("one certificate used alternately from two addresses raises one alarm") {
    HubRig rig;
    const auto arrive = [&](const char* address, std::chrono::seconds after) {
      rig.executor.run_for(after);
      RigProxy proxy(rig, kClientId, kClient, address);
    };
    SUBCASE("quickly") {
      for (const char* address : {"10.0.0.1", "10.0.0.2", "10.0.0.1"}) arrive(address, 10s);
      CHECK(rig.log.count("proxy-flapping") == 0);
      for (const char* address : {"10.0.0.2", "10.0.0.1"}) arrive(address, 10s);
      REQUIRE(rig.log.count("proxy-flapping") == 1);
      CHECK(rig.log.lines_with("proxy-flapping")[0].fields.at("previous_address") == "10.0.0.1");
      CHECK(rig.metrics.value("osm_proxy_flapping_total") == 1);
    }
    SUBCASE("but not when it moves now and then, or reconnects from one address") {
      for (const char* address : {"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.2", "10.0.0.1"})
        arrive(address, 31s);
      for (int i = 0; i < 10; ++i) arrive("10.0.0.1", 1s);
      CHECK(rig.log.count("proxy-flapping") == 0);
    }
  }

  TEST_CASE("a certificate is warned of at a fifth of its life, and its end closes the stream") {
    HubRig rig;
    RigProxy proxy(rig, kClientId, kClient, "10.0.0.1", 1000s);
    rig.executor.run_for(799s);
    CHECK(rig.log.count("certificate-ending") == 0);
    rig.executor.run_for(2s);
    REQUIRE(rig.log.count("certificate-ending") == 1);
    CHECK(rig.log.lines_with("certificate-ending")[0].fields.at("uuid") == kClientId.str());
    rig.executor.run_for(198s);
    CHECK(rig.log.count("certificate-ending") == 1);
    CHECK(proxy.open());
    rig.executor.run_for(1s);
    check_closed(proxy, CloseCode::kUnauthenticated, "certificate-expired", false);
    CHECK(proxy.stream().closed->text.find("osm vm bootstrap") != std::string::npos);
    RigProxy late(rig, kClientId, kClient, "10.0.0.1", 0s);
    check_closed(late, CloseCode::kUnauthenticated, "certificate-expired", false);
  }

  TEST_CASE("after MeshConfig's validity a certificate may only renew itself") {
    HubRig rig;
    rig.mesh.set_proxy_validity(1h);
    rig.publish();
    const WallTime issued = rig.clock.wall_now();
    RigProxy proxy(rig, kClientId, kClient, "10.0.0.1", 24h * 100);
    rig.executor.run_for(69min);  // CAs date back by ten minutes; this one does not
    CHECK(proxy.open());
    REQUIRE(rig.hub.list().size() == 1);
    CHECK(rig.hub.list().front().certificate_served_until == issued + 70min);
    CHECK(rig.hub.list().front().certificate_not_after == issued + 24h * 100);
    rig.executor.run_for(2min);
    check_closed(proxy, CloseCode::kUnauthenticated, "certificate-expired", false);
    CHECK(proxy.stream().closed->text.find("osm vm renew") != std::string::npos);
    const ads::Peer peer{{kClientId, {kClient.ns, kClient.name}},
                         CommonName("proxy"),
                         "ipv4:10.0.0.1:1",
                         issued,
                         issued + 24h * 100,
                         {},
                         kDomain};
    CHECK(rig.hub.admission().workload_of(peer).ok());  // asked by renewals
    const auto again = std::make_shared<MemoryStream>(XdsVariant::kSotw);
    rig.hub.open(1000, peer, again);
    rig.executor.run_until_idle();
    REQUIRE(again->closed);
    CHECK(again->closed->code == CloseCode::kUnauthenticated);
    rig.clock.advance(24h * 100);
    CHECK_FALSE(rig.hub.admission().workload_of(peer).ok());
  }
}

TEST_SUITE("ads::Hub writing") {
  TEST_CASE("a write that stalls for its bound cuts the stream") {
    HubRig rig;
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask(XdsType::kCluster);
    REQUIRE(proxy.stream().writing);
    rig.executor.run_for(29s);
    CHECK(proxy.open());
    rig.executor.run_for(2s);
    check_closed(proxy, CloseCode::kUnavailable, "stalled", true);
    CHECK(rig.metrics.value("osm_streams_stalled_total") == 1);
    CHECK(rig.registry.connected().empty());
  }

  TEST_CASE("the status of a stream that ends follows the write in flight") {
    HubRig rig;
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask(XdsType::kCluster);
    REQUIRE(proxy.stream().writing);
    rig.mesh.remove_workload({kClient.ns, kClientId});
    rig.publish();
    CHECK(rig.registry.connected().empty());
    CHECK(proxy.open());
    SUBCASE("when it is done") {
      proxy.finish_write();
      check_closed(proxy, CloseCode::kUnavailable, "unknown-proxy", false);
      rig.executor.run_for(60s);  // and that was all
    }
    SUBCASE("when the proxy is gone") {
      proxy.hang_up();
      check_closed(proxy, CloseCode::kUnavailable, "unknown-proxy", false);
    }
    SUBCASE("when the controller ends") {
      rig.hub.endings().close_all(CloseCode::kUnavailable, "shutting-down");
      check_closed(proxy, CloseCode::kUnavailable, "unknown-proxy", false);
    }
    SUBCASE("or cuts a write that stalls") {
      rig.executor.run_for(31s);
      check_closed(proxy, CloseCode::kUnavailable, "unknown-proxy", true);
      CHECK(rig.metrics.value("osm_streams_stalled_total") == 1);
    }
  }

  TEST_CASE("a limit on unfinished bytes delays other streams, which then take turns") {
    HubRig rig({.max_unfinished_bytes = 1});
    rig.mesh.put(workload(kOtherId, kClient, {}));
    rig.publish();
    RigProxy first(rig, kClientId, kClient);
    RigProxy second(rig, kOtherId, kClient);
    RigProxy third(rig, kServerId, kServer);
    for (RigProxy* proxy : {&first, &second, &third}) proxy->ask(XdsType::kCluster);
    for (RigProxy* proxy : {&first, &second}) proxy->ask(XdsType::kListener);
    const auto writing = [](const RigProxy& proxy) { return proxy.stream().writing.has_value(); };
    const auto only_writes = [&](const RigProxy& proxy) {
      for (const RigProxy* other : {&first, &second, &third})
        CHECK(writing(*other) == (other == &proxy));
    };
    only_writes(first);
    first.finish_write();
    only_writes(second);  // not the first's second response
    second.finish_write();
    only_writes(third);
    SUBCASE("each again when its turn comes") {
      third.finish_write();
      only_writes(first);
      first.finish_write();
      only_writes(second);
      second.finish_write();
      for (const RigProxy* proxy : {&first, &second, &third}) CHECK_FALSE(writing(*proxy));
    }
    SUBCASE("also if the stalled stream is cut") {
      rig.executor.run_for(31s);
      CHECK_FALSE(third.open());
      CHECK(writing(first));
    }
    SUBCASE("and a write counts until it is done, whatever becomes of its stream") {
      rig.mesh.remove_workload({kServer.ns, kServerId});
      rig.publish();
      CHECK_FALSE(writing(first));
      third.finish_write();
      CHECK_FALSE(third.open());
      CHECK(writing(first));
    }
  }

  TEST_CASE("a change of endpoints encodes one resource and is sent to its clients only") {
    HubRig rig;
    RigProxy client(rig, kClientId, kClient);
    RigProxy server(rig, kServerId, kServer);
    client.ask_for_all();
    server.ask_for_all();
    client.settle();
    server.settle();
    const double encoded = rig.encoded();
    const std::size_t settled = rig.metrics.observations("osm_propagation_seconds").size();
    rig.mesh.set_endpoints({"10.1.0.9", "10.1.0.10"});
    rig.publish();
    const std::vector<Response> news = client.settle();
    REQUIRE(news.size() == 1);
    CHECK(news[0].type == XdsType::kEndpoint);
    CHECK(names_of(news[0]) == kAssignmentNames);
    CHECK(server.settle().empty());
    CHECK(rig.encoded() == encoded + 1);
    CHECK(rig.metrics.observations("osm_propagation_seconds").size() == settled + 1);
    rig.publish();  // a generation that changes nothing
    CHECK(client.settle().empty());
    CHECK(rig.encoded() == encoded + 1);
  }
}

TEST_SUITE("ads::Hub secrets") {
  TEST_CASE("another object with the same value is sent to nobody") {
    HubRig rig;
    model::ServiceEntry apex = translate_test::server_entry();
    apex.split = {{kServerService, 1}};
    apex.split_origin = {{kinds::kTrafficSplit, "server", "a"}, "spec.backends"};
    rig.mesh.put(apex);
    rig.publish();
    RigProxy client(rig, kClientId, kClient), server(rig, kServerId, kServer);
    for (RigProxy* proxy : {&client, &server}) {
      proxy->ask_for_all();
      proxy->settle();
    }
    const double encoded = rig.encoded();
    apex.split_origin.object.name = "b";
    apex.limits_origin.in_force = false;
    rig.mesh.put(apex);
    rig.publish();
    CHECK(client.settle().empty());
    CHECK(server.settle().empty());
    CHECK(rig.encoded() == encoded);
    apex.cluster_ip = "10.96.10.8";
    rig.mesh.put(apex);
    rig.publish();
    CHECK_FALSE(client.settle().empty());
  }

  TEST_CASE("secrets that come late reach the proxy that waits for them") {
    HubRig rig;
    rig.secrets.slow = true;
    RigProxy proxy(rig, kClientId, kClient);
    proxy.ask(XdsType::kSecret, kSecretNames);
    proxy.ask(XdsType::kCluster);
    REQUIRE(proxy.settle().size() == 1);
    CHECK(proxy.stream().writes.back().type == XdsType::kCluster);
    rig.secrets.rotate(kServer);  // somebody else's
    rig.executor.run_until_idle();
    CHECK(proxy.settle().empty());
    rig.secrets.rotate(kClient);
    rig.executor.run_until_idle();
    const std::vector<Response> late = proxy.settle();
    REQUIRE(late.size() == 1);
    CHECK(names_of(late[0]) == kSecretNames);
  }

  TEST_CASE("a rotation encodes the identity's secrets once for all proxies") {
    HubRig rig;
    rig.mesh.put(workload(kOtherId, kClient, {}));
    rig.publish();
    RigProxy one(rig, kClientId, kClient);
    RigProxy other(rig, kOtherId, kClient);
    for (RigProxy* proxy : {&one, &other}) {
      proxy->ask(XdsType::kSecret, kSecretNames);
      proxy->settle();
    }
    CHECK(rig.metrics.value("osm_resources_encoded_total", {{"type", "SDS"}}) == 2);
    const double encoded = rig.encoded();
    rig.secrets.rotate(kClient);
    rig.executor.run_until_idle();
    for (RigProxy* proxy : {&one, &other}) {
      const std::vector<Response> news = proxy->settle();
      REQUIRE(news.size() == 1);
      CHECK(names_of(news[0]) == std::vector<std::string>{"service-cert"});
    }
    CHECK(rig.encoded() == encoded + 1);
    CHECK(rig.metrics.value("osm_resources_encoded_total", {{"type", "SDS"}}) == 3);
  }

  TEST_CASE("another trust bundle is encoded once for all identities, and no key again") {
    HubRig rig;
    RigProxy client(rig, kClientId, kClient);
    RigProxy server(rig, kServerId, kServer);
    for (RigProxy* proxy : {&client, &server}) {
      proxy->ask(XdsType::kSecret, kSecretNames);
      proxy->settle();
    }
    const double encoded = rig.encoded();
    for (int i = 0; i < 2; ++i) {  // the second time it is the same
      rig.secrets.set_trust_bundle("both roots");
      rig.executor.run_until_idle();
      for (RigProxy* proxy : {&client, &server}) {
        const std::vector<Response> news = proxy->settle();
        REQUIRE(news.size() == (i == 0 ? 1 : 0));
        if (i == 0) CHECK(names_of(news[0]) == std::vector<std::string>{"root-cert"});
      }
      CHECK(rig.encoded() == encoded + 1);
    }
  }

  TEST_CASE("a proxy that connects after a change of the trust bundle gets the new one") {
    HubRig rig;
    RigProxy client(rig, kClientId, kClient);
    client.ask(XdsType::kSecret, kSecretNames);
    client.settle();
    rig.secrets.set_trust_bundle("both roots");
    rig.executor.run_until_idle();
    RigProxy server(rig, kServerId, kServer);
    server.ask(XdsType::kSecret, kSecretNames);
    const std::vector<Response> first = server.settle();
    REQUIRE(first.size() == 1);
    CHECK(std::any_of(first[0].resources.begin(), first[0].resources.end(), [](const auto& one) {
      return one->any.find("both roots") != std::string::npos;
    }));
  }

  TEST_CASE("a proxy that names far more than its class has is read slowly, and no other is") {
    HubRig rig;
    std::vector<std::string> invented;
    for (std::size_t i = 0; i < ads::kMaxNames; ++i)
      invented.push_back("invented-" + std::to_string(i));
    auto flood = std::make_unique<RigProxy>(rig, kClientId, kClient);
    RigProxy other(rig, kServerId, kServer);
    flood->ask(XdsType::kEndpoint, invented);
    CHECK(flood->read());  // a proxy that reconnects may know a larger mesh
    invented.resize(10'000);
    flood->ask(XdsType::kEndpoint, invented);
    CHECK_FALSE(flood->read());
    other.ask_for_all();
    other.settle();
    CHECK(other.read());
    CHECK(rig.metrics.value("osm_proxy_requests_delayed_total") == 1);
    SUBCASE("for as long as it takes for all proxies") {
      rig.executor.run_for(9s);
      CHECK_FALSE(flood->read());
      rig.executor.run_for(2s);
      CHECK(flood->read());
    }
    SUBCASE("and gets no other stream before") {
      flood = std::make_unique<RigProxy>(rig, kClientId, kClient);
      CHECK_FALSE(flood->open());
      rig.executor.run_for(11s);
      flood = std::make_unique<RigProxy>(rig, kClientId, kClient);
      REQUIRE(flood->open());
      flood->ask(XdsType::kEndpoint, {});
      CHECK(flood->read());  // names that its class has cost nothing
      flood->ask(XdsType::kEndpoint, invented);
      CHECK_FALSE(flood->read());
      flood->hang_up();
      rig.executor.run_for(60s);
    }
  }

  TEST_CASE("the last proxy of an identity releases its secret, a minute after it went") {
    HubRig rig;
    rig.mesh.put(workload(kOtherId, kClient, {}));
    rig.publish();
    RigProxy one(rig, kClientId, kClient);
    RigProxy other(rig, kOtherId, kClient);
    one.hang_up();
    rig.executor.run_for(120s);
    CHECK(rig.secrets.released.empty());
    other.hang_up();
    rig.executor.run_for(30s);
    {
      RigProxy back(rig, kOtherId, kClient);
      rig.executor.run_for(120s);
      CHECK(rig.secrets.released.empty());
      back.hang_up();
    }
    rig.executor.run_for(62s);
    CHECK(rig.secrets.released == std::set<ServiceIdentity>{kClient});
    // And whoever comes then gets a new one.
    RigProxy later(rig, kClientId, kClient);
    later.ask(XdsType::kSecret, kSecretNames);
    CHECK(later.settle().size() == 1);
  }
}
