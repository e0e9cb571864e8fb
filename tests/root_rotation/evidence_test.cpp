// Silent and absent proxies hold a step for a bounded time; replicas' reports are merged as sets.
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rotation_rig.hpp"

using namespace osm;
using namespace osm::root_rotation::rig;
using root_rotation::RootRecord;
using root_rotation::RootState;
using std::chrono::hours;
using std::chrono::seconds;

TEST_SUITE("root_rotation evidence") {
  TEST_CASE("a silent proxy holds a step for max_wait, and is named then") {
    Mesh mesh;
    Served served;
    served.proxies = {{"silent", "web"}, {{"silent", {.bundle = true, .leaf = true}}, {"web", {}}}};
    Replica replica(mesh, "a", &served);
    run(mesh, {&replica}, 200);  // it is no longer young
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&replica}, 590);
    CHECK(mesh.states()["next"] == RootState::kValidating);
    run(mesh, {&replica}, 20);
    CHECK(mesh.states()["next"] == RootState::kSigning);
    run(mesh, {&replica}, 620);
    CHECK(mesh.states()[kOwnRoot] == RootState::kInactive);
    const RootStatus next = status_of(replica, "next");
    CHECK(next.left_behind.find("(shop/silent)") != std::string::npos);
    CHECK(next.waiting_for.empty());
    CHECK(mesh.log.count("root rotation goes on without some proxies") == 2);
  }

  TEST_CASE("a workload whose proxy was never connected holds no step") {
    Mesh mesh;
    Served served;
    served.proxies = {{"pending", "web"}, {{"web", {}}}};
    Replica replica(mesh, "a", &served);
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&replica}, 60);
    CHECK(mesh.states()["next"] == RootState::kValidating);  // it may be reconnecting
    CHECK(status_of(replica, "next").waiting_for.find("(shop/pending)") != std::string::npos);
    run(mesh, {&replica}, 120);
    CHECK(mesh.states()["next"] == RootState::kSigning);
    CHECK(mesh.states()[kOwnRoot] == RootState::kInactive);
    CHECK(status_of(replica, "next").left_behind.empty());
  }

  TEST_CASE("a proxy that is away holds a step, also after all replicas started anew") {
    Mesh mesh;
    Served first, second;
    first.proxies = {{"box", "web"}, {{"box", {}}, {"web", {}}}};
    second.proxies = {{"box", "web"}, {}};
    auto a = std::make_unique<Replica>(mesh, "a", &first);
    auto b = std::make_unique<Replica>(mesh, "b", &second);
    b->leads = false;
    run(mesh, {a.get(), b.get()}, 20);
    first.proxies.connected.erase("box");
    SUBCASE("the replicas stay") {}
    SUBCASE("the one that it was connected to is gone") {
      mesh.wish("next", RootRole::kActive);
      a = nullptr;
      mesh.wall.said.erase("a");
      second.proxies.connected = {{"web", {}}};
      b->leads = true;
    }
    SUBCASE("both start anew during the rotation") {
      mesh.wish("next", RootRole::kActive);
      run(mesh, {a.get(), b.get()}, 20);
      a = nullptr;
      b = nullptr;
      mesh.wall.said.clear();
      a = std::make_unique<Replica>(mesh, "a", &first);
    }
    mesh.wish("next", RootRole::kActive);
    std::vector<Replica*> live;
    for (Replica* replica : {a.get(), b.get()})
      if (replica) live.push_back(replica);
    run(mesh, live, 300);
    CHECK(mesh.states()["next"] == RootState::kValidating);
    CHECK(status_of(*live[0], "next").waiting_for ==
          "waits for 1 workloads whose proxy is not connected (shop/box)");
    (a ? first : second).proxies.connected["box"] = {};
    run(mesh, live, 20);
    CHECK(mesh.states()[kOwnRoot] == RootState::kInactive);
  }

  TEST_CASE("proxies that are away hold a rotation that begins after all replicas started anew") {
    Mesh mesh;
    Served served;
    served.proxies = {{"web"}, {{"web", {}}}};
    for (int i = 0; i < 20; ++i) served.proxies.connect("box-" + std::to_string(i));
    auto replica = std::make_unique<Replica>(mesh, "a", &served);
    run(mesh, {replica.get()}, 100);
    served.proxies.connect("late");
    run(mesh, {replica.get()}, 120);
    served.proxies.connected = {{"web", {}}};
    replica = nullptr;
    mesh.wall.said.clear();
    replica = std::make_unique<Replica>(mesh, "a", &served);
    run(mesh, {replica.get()}, 200);  // it is no longer young
    mesh.wish("next", RootRole::kActive);
    run(mesh, {replica.get()}, 700);  // longer than max_wait: many are missing
    CHECK(mesh.states()["next"] == RootState::kValidating);
    CHECK(
        status_of(*replica, "next")
            .waiting_for.starts_with("waits for 21 workloads whose proxy is not connected (shop/"));
    mesh.clock.advance(hours(48));
    run(mesh, {replica.get()}, 20);
    CHECK(mesh.states()["next"] == RootState::kSigning);
    CHECK(status_of(*replica, "next").left_behind.starts_with("21 workloads"));
  }

  TEST_CASE("a proxy is recorded soon after its first connection, and until its workload is gone") {
    Mesh mesh;
    Served first, second;
    first.proxies.connect("web");
    second.proxies.workloads = first.proxies.workloads;
    Replica a(mesh, "a", &first), b(mesh, "b", &second);
    b.leads = false;
    const auto met = [&] { return root_rotation::parse_met(mesh.record.text); };
    const auto reported = [&](const char* replica) {
      return root_rotation::parse_view(mesh.wall.said.at(replica)).value().proxies.size();
    };
    run(mesh, {&a, &b}, 90);
    const int before = mesh.record.version;
    for (int i = 0; i < 180; ++i) {
      const std::string name = "box-" + std::to_string(i);
      second.proxies.connect(name);
      first.proxies.workloads.push_back(name);
      run(mesh, {&a, &b}, 1);
    }
    CHECK(mesh.record.version - before >= 2);
    CHECK(mesh.record.version - before <= 4);
    run(mesh, {&a, &b}, 120);
    CHECK(met().size() == 181);
    CHECK(reported("a") == 0);
    CHECK(reported("b") == 0);

    const int at_rest = mesh.record.version;
    second.proxies.connected.clear();
    for (Served* served : {&first, &second}) std::erase(served->proxies.workloads, "box-0");
    run(mesh, {&a, &b}, 300);
    CHECK(mesh.record.version == at_rest);
    first.proxies.connect("last");
    run(mesh, {&a, &b}, 120);
    CHECK(mesh.record.version == at_rest + 1);
    CHECK(met().size() == 181);
    CHECK_FALSE(met().contains(root_rotation::number_of(proxy_of("box-0"))));
    CHECK(met().contains(root_rotation::number_of(proxy_of("last"))));
  }

  TEST_CASE("a change of another topic of the board causes no look at the record") {
    Mesh mesh;
    Served served;
    served.proxies.connect("web");
    Replica a(mesh, "a", &served), b(mesh, "b");
    run(mesh, {&a, &b}, 95);
    const int before = mesh.record.loads;
    mesh.wall.changed.notify();
    for (Replica* replica : {&a, &b}) replica->executor.run_until_idle();
    CHECK(mesh.record.loads == before);
    mesh.wall.said["c"] = "";  // it has just appeared
    mesh.wall.changed.notify();
    for (Replica* replica : {&a, &b}) replica->executor.run_until_idle();
    CHECK(mesh.record.loads == before + 2);
  }

  TEST_CASE("at rest each replica reads the record once a minute, and a step at once") {
    Mesh mesh;
    Served served;
    served.proxies.connect("web");
    Replica a(mesh, "a", &served), b(mesh, "b");
    b.leads = false;
    run(mesh, {&a, &b}, 130);
    const int before = mesh.record.loads;
    run(mesh, {&a, &b}, 600);
    CHECK(mesh.record.loads - before >= 18);
    CHECK(mesh.record.loads - before <= 22);
    mesh.wish("next", RootRole::kPassive);
    run(mesh, {&a, &b}, 2);
    const auto recorded = root_rotation::parse_records(mesh.record.text).value();
    REQUIRE(recorded.size() == 2);
    for (const char* replica : {"a", "b"})
      CHECK(root_rotation::parse_view(mesh.wall.said.at(replica)).value().follows ==
            root_rotation::effect_of(recorded));
  }

  TEST_CASE("more proxies at the leader than a report takes do not hold a rotation") {
    Mesh mesh;
    Served served;
    for (std::size_t i = 0; i < root_rotation::ReplicaView::kMostProxies + 50; ++i)
      served.proxies.connect("box-" + std::to_string(i));
    Replica a(mesh, "a", &served);
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a}, 15);
    CHECK(mesh.states()[kOwnRoot] == RootState::kInactive);
    CHECK(status_of(a, "next").left_behind.empty());
  }

  TEST_CASE("a denied workload holds no step: its proxy is refused") {
    model::WorkloadEntry denied;
    denied.proxy = proxy_of("box");
    denied.denied = "Denylist osm-system/stolen denies it";
    const auto all = root_rotation::sum_up(
        {{"a", root_rotation::to_text(root_rotation::ReplicaView{.follows = "f"})}}, "f",
        Table<model::WorkloadEntry>({std::make_shared<const model::WorkloadEntry>(denied)}),
        {{root_rotation::number_of(denied.proxy), 0}});
    CHECK(all.evidence.absent == 0);
    CHECK(all.met.size() == 1);  // it may be permitted again
  }

  TEST_CASE("evidence is of sets: a proxy at two replicas hides no other that is absent") {
    const Proxies mesh{{"a", "b", "c"}, {}};
    const auto number = [](const char* name) { return root_rotation::number_of(proxy_of(name)); };
    using namespace root_rotation;
    const ReplicaView left{.follows = "f", .proxies = {{number("a"), kConnected | kLacksLeaf}}};
    const ReplicaView right{.follows = "f",
                            .proxies = {{number("a"), kConnected}, {number("b"), kConnected}}};
    const std::map<std::string, std::string> views{{"l", to_text(left)}, {"r", to_text(right)}};
    const ReplicaViews all = sum_up(views, "f", mesh.table(), {{number("c"), 0}});
    CHECK(all.evidence.complete);
    CHECK(all.evidence.workloads == 3);
    CHECK(all.evidence.absent == 1);
    CHECK(all.evidence.lagging == "shop/c");
    CHECK(all.evidence.leaf_lag == 1);
    CHECK(all.evidence.any_lag == 1);
    CHECK(all.met == std::set<ProxyNumber>{number("a"), number("b"), number("c")});
  }

  TEST_CASE("a report of more proxies than the board takes keeps those that matter") {
    using namespace root_rotation;
    ReplicaView view{.follows = "f"};
    const std::size_t more = ReplicaView::kMostProxies + 5;
    for (ProxyNumber number = 0; number < more; ++number) view.proxies[number] = kConnected;
    for (ProxyNumber number = 0; number < 3; ++number) view.proxies[number] = 0;  // was connected
    view.proxies[more - 1] = kConnected | kLacksBundle;
    view.proxies[more - 2] = kConnected | kLacksLeaf;
    const std::string text = to_text(view);
    CHECK(text.size() < 100'000);
    const ReplicaView read = parse_view(text).value();
    CHECK(read.proxies.size() == ReplicaView::kMostProxies);
    CHECK(read.proxies.at(more - 1) == (kConnected | kLacksBundle));
    CHECK(read.proxies.at(more - 2) == (kConnected | kLacksLeaf));
    CHECK(read.proxies.begin()->first == 3);
    CHECK(read.omitted == 0);
  }

  TEST_CASE("proxies that do not fit into a report hide none that lags or is absent") {
    using namespace root_rotation;
    Proxies mesh;
    ReplicaView view{.follows = "f"};
    for (std::size_t i = 0; i < ReplicaView::kMostProxies + 5; ++i) {
      mesh.workloads.push_back("box-" + std::to_string(i));
      view.proxies[number_of(proxy_of(mesh.workloads.back()))] = kConnected;
    }
    mesh.workloads.emplace_back("away");
    std::map<ProxyNumber, std::uint8_t> known{{number_of(proxy_of("away")), 0}};
    const auto sum = [&] { return sum_up({{"l", to_text(view)}}, "f", mesh.table(), known); };
    CHECK(sum().evidence.absent == 1);
    CHECK(sum().evidence.any_lag == 0);
    for (auto& [number, flags] : view.proxies) flags |= kLacksBundle;
    CHECK(sum().evidence.absent == 1);
    CHECK(sum().evidence.bundle_lag == view.proxies.size());
    CHECK(sum().evidence.any_lag == view.proxies.size());
    for (auto& [number, flags] : view.proxies) flags = kConnected;
    for (const auto& [number, flags] : view.proxies) known[number] = 0;
    CHECK(sum().evidence.absent == 6);  // nobody says that the five are not
  }

  TEST_CASE("the latest end among the certificates of each root is recorded") {
    Mesh mesh;
    Replica a(mesh, "a"), b(mesh, "b");
    b.leads = false;
    REQUIRE(b.manager
                ->issue_certificate(
                    {CommonName("box.shop.cluster.local"), spiffe_id(kDomain, {"shop", "box"})},
                    hours(240))
                .ok());
    const WallTime longest = mesh.clock.wall_now() + hours(240);
    run(mesh, {&a, &b}, 15);
    const auto recorded = [&](const std::string& name) {
      const auto records = root_rotation::parse_records(mesh.record.text);
      for (const RootRecord& root : records.value())
        if (root.name == name) return root.latest_not_after;
      return WallTime{};
    };
    CHECK(recorded(kOwnRoot) >= longest);
    CHECK(recorded(kOwnRoot) < longest + hours(1));
    CHECK(status_of(a, kOwnRoot).latest_not_after == recorded(kOwnRoot));
    const int version = mesh.record.version;
    run(mesh, {&a, &b}, 60);
    CHECK(mesh.record.version == version);  // nothing is written at rest
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a, &b});
    CHECK(recorded("next") > mesh.clock.wall_now() + hours(23));
    CHECK(recorded("next") < mesh.clock.wall_now() + hours(25));
  }
}
