// Names are asked again after their TTL, and keep their addresses while servers are away.
#include "dns_fixture.hpp"

using namespace osm;
using namespace osm::dns;
using namespace osm::dns::testing;

using Texts = std::vector<std::string>;

TEST_SUITE("dns::make_dns_resolver") {
  TEST_CASE_FIXTURE(DnsFixture, "a name has its addresses, and is asked again after its TTL") {
    zone["A:api.example"] = addresses({"10.0.0.2", "10.0.0.1"}, 30s);
    follow({"A:api.example"});
    CHECK(found("A:api.example") == Texts{"10-0-0-1=10.0.0.1", "10-0-0-2=10.0.0.2"});
    CHECK_FALSE(resolver->find("A:api.example")->scales);
    CHECK(resolver->has_synced());
    CHECK(resolver->healthy());
    CHECK(problems().empty());
    CHECK(changes == std::vector<Ids>{{"A:api.example"}, {}});
    changes.clear();

    executor.run_for(29s);
    CHECK(asked["A:api.example"] == 1);
    zone["A:api.example"] = addresses({"10.0.0.3"}, 30s);
    executor.run_for(1s);
    CHECK(found("A:api.example") == Texts{"10-0-0-3=10.0.0.3"});
    CHECK(changes == std::vector<Ids>{{"A:api.example"}});
    changes.clear();
    executor.run_for(30s);
    CHECK(asked["A:api.example"] == 3);
    CHECK(changes.empty());
  }

  TEST_CASE_FIXTURE(DnsFixture, "a TTL has a floor and a ceiling") {
    zone["A:short"] = addresses({"10.0.0.1"}, 0s);
    zone["A:long"] = addresses({"10.0.0.1"}, 86400s);
    follow({"A:short", "A:long"});
    executor.run_for(60s);
    CHECK(asked["A:short"] == 13);
    executor.run_for(240s);
    CHECK(asked["A:long"] == 2);
  }

  TEST_CASE_FIXTURE(DnsFixture, "silence keeps the addresses, is unhealthy, and ends by itself") {
    zone["A:api.example"] = addresses({"10.0.0.1"}, 30s);
    follow({"A:api.example"});
    changes.clear();
    away = true;
    executor.run_for(300s);
    CHECK(found("A:api.example") == Texts{"10-0-0-1=10.0.0.1"});
    CHECK_FALSE(resolver->healthy());
    CHECK(resolver->has_synced());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("no name server answers; check --dns-server") != std::string::npos);
    CHECK(problems()[0].find("Its last 1 addresses are kept") != std::string::npos);
    CHECK(changes == std::vector<Ids>{{"A:api.example"}, {}});
    CHECK(log.count("a DNS name is not answered") == 1);

    away = false;
    changes.clear();
    executor.run_for(31s);
    CHECK(resolver->healthy());
    CHECK(problems().empty());
    CHECK(changes == std::vector<Ids>{{"A:api.example"}, {}});
  }

  TEST_CASE_FIXTURE(DnsFixture, "a resolver that no name server has answered is not synced") {
    away = true;
    follow({"A:api.example"});
    executor.run_for(120s);
    CHECK_FALSE(resolver->has_synced());
    CHECK(found("A:api.example") == Texts{"unknown"});
    zone["A:api.example"] = addresses({"10.0.0.1"});
    away = false;
    executor.run_for(31s);
    CHECK(resolver->has_synced());
  }

  TEST_CASE_FIXTURE(DnsFixture, "a name that a server refuses for ever does not hold a start up") {
    zone["A:broken.example"] = {Outcome::kRefused, {}, {}};
    zone["A:api.example"] = addresses({"10.0.0.1"});
    follow({"A:broken.example", "A:api.example"});
    CHECK_FALSE(resolver->has_synced());
    CHECK(resolver->healthy());
    executor.run_for(10s);
    CHECK(resolver->has_synced());
    CHECK(found("A:broken.example") == Texts{"unknown"});
  }

  TEST_CASE_FIXTURE(DnsFixture, "a silent name beside answered ones does not hold a start up") {
    zone["A:silent.example"] = Answer();
    zone["A:api.example"] = addresses({"10.0.0.1"});
    follow({"A:silent.example", "A:api.example"});
    CHECK_FALSE(resolver->has_synced());
    executor.run_for(10s);
    CHECK(resolver->has_synced());
    CHECK(found("A:silent.example") == Texts{"unknown"});
  }

  TEST_CASE_FIXTURE(DnsFixture, "silent names do not keep others waiting") {
    Ids ids{"A:z.example"};
    zone["A:z.example"] = addresses({"10.0.0.1"});
    for (int i = 0; i < 400; ++i) {
      const std::string id = "A:a" + std::to_string(i) + ".example";
      ids.insert(id);
      zone[id] = Answer();  // due again while the round of the others lasts
    }
    slow_rounds = 14;
    follow(ids);
    CHECK(first_round["A:z.example"] == 7);  // 64 names a round
  }

  TEST_CASE_FIXTURE(DnsFixture, "an error and an answer without records keep the addresses") {
    for (const Outcome outcome : {Outcome::kRefused, Outcome::kNoData}) {
      zone["A:api.example"] = addresses({"10.0.0.1"}, 5s);
      make();
      follow({"A:api.example"});
      zone["A:api.example"] = {outcome, {}, {}};
      executor.run_for(3600s);
      CHECK(found("A:api.example") == Texts{"10-0-0-1=10.0.0.1"});
      CHECK(resolver->healthy());
      CHECK(problems().size() == 1);
    }
  }

  TEST_CASE_FIXTURE(DnsFixture, "a name that is gone keeps its addresses for five minutes") {
    zone["A:api.example"] = addresses({"10.0.0.1"}, 5s);
    follow({"A:api.example"});
    zone.erase("A:api.example");
    executor.run_for(290s);
    CHECK(found("A:api.example") == Texts{"10-0-0-1=10.0.0.1"});
    // A server that is away in between says nothing about the name.
    away = true;
    executor.run_for(60s);
    away = false;
    executor.run_for(290s);
    CHECK(found("A:api.example") == Texts{"10-0-0-1=10.0.0.1"});
    executor.run_for(90s);
    CHECK(found("A:api.example").empty());
    zone["A:api.example"] = addresses({"10.0.0.2"});
    executor.run_for(31s);
    CHECK(found("A:api.example") == Texts{"10-0-0-2=10.0.0.2"});
  }

  TEST_CASE_FIXTURE(DnsFixture, "failed names are asked again with a back-off") {
    zone["A:api.example"] = {Outcome::kRefused, {}, {}};
    follow({"A:api.example"});
    executor.run_for(300s);
    CHECK(asked["A:api.example"] >= 12);
    CHECK(asked["A:api.example"] <= 30);
  }

  TEST_CASE_FIXTURE(DnsFixture, "an SRV record has the ports and weights of its hosts") {
    zone["SRV:_web._tcp.shop"] = {
        Outcome::kAnswered,
        {{"a.shop", 8080, 1, 10}, {"b.shop", 8081, 1, 0}, {"spare.shop", 8082, 2, 5}},
        120s};
    zone["A:a.shop"] = addresses({"10.0.0.1", "10.0.0.2"}, 20s);
    zone["A:b.shop"] = addresses({"10.0.0.3"}, 120s);
    follow({"SRV:_web._tcp.shop"});
    const auto resolution = resolver->find("SRV:_web._tcp.shop");
    REQUIRE(resolution);
    CHECK(resolution->instances ==
          std::vector<ResourceInstance>{{"10-0-0-1-8080", "10.0.0.1", Port{8080}, {}, 10, true},
                                        {"10-0-0-2-8080", "10.0.0.2", Port{8080}, {}, 10, true},
                                        {"10-0-0-3-8081", "10.0.0.3", Port{8081}, {}, 1, true}});
    CHECK(asked["A:spare.shop"] == 0);
    executor.run_for(20s);
    CHECK(asked["SRV:_web._tcp.shop"] == 2);

    // The other hosts are no smaller set.
    zone["A:b.shop"] = {Outcome::kSilent, {}, {}};
    executor.run_for(60s);
    CHECK(resolver->find("SRV:_web._tcp.shop")->instances.size() == 3);
    // A host without an address is gone.
    zone.erase("A:b.shop");
    executor.run_for(60s);
    CHECK(resolver->find("SRV:_web._tcp.shop")->instances.size() == 2);
  }

  TEST_CASE_FIXTURE(DnsFixture, "names that are not followed any more are forgotten") {
    zone["A:a"] = addresses({"10.0.0.1"}, 5s);
    zone["A:b"] = addresses({"10.0.0.2"}, 5s);
    follow({"A:a", "A:b", "no id", "TXT:a"});
    follow({"A:b"});
    CHECK(found("A:a") == Texts{"unknown"});
    CHECK(found("A:b") == Texts{"10-0-0-2=10.0.0.2"});
    const int before = asked["A:a"];
    executor.run_for(60s);
    CHECK(asked["A:a"] == before);
    away = true;
    executor.run_for(60s);
    CHECK_FALSE(resolver->healthy());
    follow({});
    CHECK(resolver->healthy());
    CHECK(resolver->has_synced());
  }

  TEST_CASE_FIXTURE(DnsFixture, "a thousand names are asked in rounds of bounded size") {
    Ids ids;
    for (int i = 0; i < 1000; ++i) {
      const std::string id = "A:n" + std::to_string(i);
      ids.insert(id);
      zone[id] = addresses({"10.0.0.1"}, 300s);
    }
    follow(ids);
    CHECK(rounds == 16);
    CHECK(resolver->has_synced());
    CHECK(metrics.value("osm_dns_lookups_total", {{"result", "answered"}}) == 1000);
  }

  TEST_CASE_FIXTURE(DnsFixture, "a resolver ends while a round is in flight") {
    zone["A:a"] = addresses({"10.0.0.1"});
    resolver->follow({"A:a"});
    executor.run_one();  // the plan: the round is queued
    subscription.reset();
    resolver.reset();
    executor.run_until_idle();
    CHECK(changes.empty());
  }

  TEST_CASE_FIXTURE(DnsFixture, "servers are addresses") {
    const Runtime runtime{executor, executor, clock, rng, log, metrics};
    for (const std::string good :
         {"192.0.2.53", "192.0.2.53:5353", "[2001:db8::53]:53", "[2001:db8::53]", "2001:db8::53"})
      CHECK_MESSAGE(make_dns_resolver({.runtime = runtime, .servers = {good}}).ok(), good);
    for (const std::string bad :
         {"", "ns.example", "192.0.2.53,192.0.2.54", "192.0.2.53 ", "1.2.3", "192.0.2.53:0",
          "192.0.2.53:x", "192.0.2.53:", "[192.0.2.53]:53", "[2001:db8::53", "[2001:db8::53]x"}) {
      const auto made = make_dns_resolver({.runtime = runtime, .servers = {bad}});
      REQUIRE_MESSAGE(!made.ok(), bad);
      CHECK(made.error().code == ErrorCode::kInvalidArgument);
    }
  }
}
