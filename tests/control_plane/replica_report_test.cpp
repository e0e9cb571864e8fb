// A report reads back as it was written, and the sum over replicas claims nothing that is not
// known.
#include "control_plane/replica_report.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ads/progress.hpp"
#include "catalog/mesh_loop.hpp"
#include "catalog/mesh_values.hpp"
#include "control_plane/receipts.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_endpoints_provider.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;
using namespace osm::control_plane;
using namespace std::chrono_literals;
namespace values = osm::catalog::values;

namespace {

ProxyLine line(std::uint64_t generation) {
  ProxyLine line;
  line.presence = ProxyLine::Presence::kConnected;
  line.claimed = true;
  line.generation = generation;
  line.states = {SyncState::kSynced, SyncState::kPending, SyncState::kNotSubscribed,
                 SyncState::kStale, SyncState::kSynced};
  line.not_after = WallTime(1'700'000'000s);
  line.served_until = WallTime(1'600'000'000s);
  return line;
}

ReplicaReport report() {
  ReplicaReport report{.id = "0123456789abcdef", .generation = 7};
  report.since = 5;
  report.changed = {{1, 6}, {2, 7}};
  report.digests.policies[3] = 0xfedcba98;
  report.digests.workloads[255] = 1;
  report.digests.endpoints[0] = 2;
  report.digests.settings = 3;
  report.proxies = {{0xabcdef012345, line(7)}, {2, line(5)}, {3, line(0)}, {4, ProxyLine{}}};
  report.notes[2] = {WallTime(1'700'000'001s), {"", "", "", "no \"such\" listener", ""}};
  nack_provenance::Verdict verdict{
      .workload = {"shop", "web"}, .type = XdsType::kRoute, .detail = "no\nway", .keeping = true};
  report.refusals[{kinds::kTrafficTarget, "shop", "a"}][{"shop", ProxyId("1")}] = verdict;
  verdict.type = XdsType::kCluster;
  verdict.keeping = false;
  report
      .refusals[{kinds::kTrafficTarget, "shop", "a"}][{"shop", ProxyId("2"), WorkloadKind::kPod}] =
      verdict;
  return report;
}

ObjectKey routes(const std::string& name) { return {kinds::kHttpRouteGroup, values::kNs, name}; }
ObjectKey target(const std::string& name) { return {kinds::kTrafficTarget, values::kNs, name}; }

// Proxies of this replica that have applied everything.
class AppliedProxies final : public ads::ProgressHost {
 public:
  std::set<model::ProxyKey> here;

  std::vector<ads::ProxyProgress> progress(
      const std::vector<model::ProxyKey>& proxies) const override {
    std::vector<ads::ProxyProgress> out;
    for (const model::ProxyKey& proxy : proxies)
      if (here.contains(proxy)) out.push_back({proxy, UINT64_MAX, false, {}});
    return out;
  }
  std::vector<ads::ReportedProxy> report() const override { return {}; }
  model::CertificateProgress certificate_progress(const model::CertificateGoal&) const override {
    return {};
  }
  void recall(const std::string&) override {}
  Subscription subscribe_progress(std::function<void(const model::ProxyKey*)>) override {
    return {};
  }
};

// Receipts of the replica of "client" and "s1". "s0" is at another one, whose reports the test
// writes. "client" may call both by a route group of their own.
struct Sum {
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{1};
  osm::testing::MemoryMeshSpec spec;
  osm::testing::MemoryEndpointsProvider provider;
  std::unique_ptr<catalog::MeshLoop> loop;
  AppliedProxies proxies;
  OtherReplicas others{.known = true, .replicas = {{.name = "b"}}};
  std::unique_ptr<Receipts> receipts;

  Sum() {
    spec.put_namespace(values::kNs);
    add("client", {});
    for (const std::string name : {"s0", "s1"}) {
      spec.put(values::service(name, name == "s0" ? "10.9.0.1" : "10.9.0.2"));
      provider.set_endpoints(values::service_name(name), {values::served_at("10.1.0.1", name)});
      add(name, {name});
      put_routes(name, "/good");
      spec.put(values::target(name, name, {"client"}, {values::http_rule(name, {"m"})}));
    }
    loop = std::make_unique<catalog::MeshLoop>(
        catalog::MeshLoopOptions{.spec = spec,
                                 .providers = {{&provider}},
                                 .workload_providers = {&provider},
                                 .runtime = {executor, executor, clock, rng, log, metrics}});
    receipts = std::make_unique<Receipts>(ReceiptsOptions{
        .mesh = *loop,
        .proxies = proxies,
        .spec = spec,
        .problems = [] { return std::vector<Problem>(); },
        .refusing =
            [](const auto&) { return std::map<model::ProxyKey, nack_provenance::Verdict>(); },
        .others = [this] { return std::make_shared<const OtherReplicas>(others); },
        .subscribe_others = [](const auto&) { return Subscription(); }});
    proxies.here = {key("client"), key("s1")};
    settle();
    tell(fresh());
  }
  void add(const std::string& name, const std::vector<std::string>& services) {
    provider.put_workload(values::workload(name, key(name).id.str(), name, "10.1.1.1", services));
  }
  void put_routes(const std::string& name, const std::string& path) {
    smi::HttpRouteGroup group{.name = {values::kNs, name}, .matches = {}};
    group.matches.push_back({.name = "m", .path_regex = path, .methods = {}, .headers = {}});
    spec.put(group);
  }
  void settle() { executor.run_for(2s); }
  std::shared_ptr<const model::MeshSnapshot> mesh() { return loop->snapshots().load(); }
  static model::ProxyKey key(const std::string& name) {
    return {values::kNs, ProxyId("00000000-0000-4000-8000-00000000000" +
                                 std::string(name == "client" ? "9" : name.substr(1)))};
  }

  // The other replica has read this replica's mesh, and "s0" has applied it.
  ReplicaReport fresh() {
    ReplicaReport said{.id = "b", .generation = 9};
    said.digests = *mesh()->digests;
    said.since = 9;
    said.proxies.emplace(mark_of(key("s0")), line(9));
    said.proxies.begin()->second.states.fill(SyncState::kSynced);
    return said;
  }
  // It counts its own generations: the object changed there in the newest one, which "s0" lacks.
  ReplicaReport lagging(const ObjectKey& object) {
    ReplicaReport said = fresh();
    said.since = 8;
    said.changed[mark_of(object)] = 9;
    said.proxies.at(mark_of(key("s0"))).generation = 8;
    return said;
  }
  void tell(ReplicaReport said) {
    others.replicas.front().report = std::make_shared<const ReplicaReport>(std::move(said));
    others.replicas.front().starting = false;
    others.replicas.front().heard = mesh()->generation;
  }
  ObjectStatus ask(const ObjectKey& object) {
    const auto status = receipts->status(object);
    REQUIRE_MESSAGE(status.ok(), status.error().text());
    return *status;
  }
};

}  // namespace

TEST_SUITE("control_plane::ReplicaReport") {
  TEST_CASE("a written report is read back") {
    const auto read = parse_report(text_of(report()));
    REQUIRE(read.has_value());
    CHECK(*read == report());
    for (const ReplicaReport& small :
         {ReplicaReport{.id = "a"}, ReplicaReport{.id = "a", .left = true}}) {
      const auto again = parse_report(text_of(small));
      REQUIRE(again.has_value());
      CHECK(*again == small);
    }
  }

  TEST_CASE("proxies that do not fit are left out, those that lag last, and the reader knows") {
    ReplicaReport large = report();
    for (Mark mark = 100; mark < 10'000; ++mark) large.proxies.emplace(mark, line(7));
    const std::string text = text_of(large);
    CHECK(text.size() <= kMaxReportBytes);
    const auto read = parse_report(text);
    REQUIRE(read.has_value());
    CHECK_FALSE(read->all_proxies);
    CHECK(read->proxies.size() > 3'900);
    CHECK(read->proxies.at(2) == line(5));
    for (const auto& [mark, line] : read->proxies) CHECK(large.proxies.at(mark) == line);
  }

  TEST_CASE("an object that many proxies refuse goes with as many of them as fit") {
    ReplicaReport large = report();
    for (int i = 0; i < 1'000; ++i)
      large.refusals[{kinds::kService, "shop", "a"}][{"shop", ProxyId(std::to_string(i))}] = {
          .workload = {"shop", "web"}, .detail = std::string(200, 'x')};
    const std::string text = text_of(large);
    CHECK(text.size() <= kMaxReportBytes);
    const auto read = parse_report(text);
    REQUIRE(read.has_value());
    REQUIRE(read->refusals.size() == 1);
    CHECK(read->refusals.begin()->second.size() > 20);
    CHECK(text_of(*read) == text);
  }

  TEST_CASE("four thousand proxies fit") {
    ReplicaReport large = report();
    large.proxies.clear();
    for (Mark mark = 1; mark <= 4'000; ++mark) large.proxies.emplace(mark * 99'999'937, line(7));
    const auto read = parse_report(text_of(large));
    REQUIRE(read.has_value());
    CHECK(read->all_proxies);
    CHECK(read->proxies == large.proxies);
  }

  TEST_CASE("the text of another version, or a damaged one, is no report") {
    const std::string whole = text_of(report());
    std::string newer = whole;
    newer.replace(newer.find("\"version\":2"), 11, "\"version\":3");
    std::string damaged = whole;
    damaged.insert(damaged.find("\"digests\":\"") + 11, "!");
    for (const std::string& text :
         {std::string(), std::string("1 complete"), newer, damaged, whole.substr(0, 100)})
      CHECK_FALSE(parse_report(text).has_value());
  }
}

TEST_SUITE("control_plane::ReplicaReport, sums") {
  TEST_CASE("proxies of all replicas are counted") {
    Sum mesh;
    const ObjectStatus status = mesh.ask(routes("s0"));
    CHECK(status.phase == ObjectPhase::kApplied);
    CHECK(status.concerned == 2);
    CHECK(status.applied == 2);
    CHECK(status.not_connected.empty());
    CHECK(status.replicas == 2);
  }

  TEST_CASE("a proxy of another replica that lags holds its objects back, and no others") {
    Sum mesh;
    mesh.tell(mesh.lagging(routes("s0")));
    const ObjectStatus status = mesh.ask(routes("s0"));
    CHECK(status.phase == ObjectPhase::kPending);
    CHECK(status.applied == 1);
    REQUIRE(status.lagging.size() == 1);
    CHECK(status.lagging.front().workload.name == "s0");
    CHECK_FALSE(status.lagging.front().refused);
    CHECK(mesh.ask(target("s0")).phase == ObjectPhase::kApplied);  // unchanged for long
    CHECK(mesh.ask(target("s1")).phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a proxy that has applied nothing yet holds back every object that concerns it") {
    Sum mesh;
    ReplicaReport said = mesh.fresh();
    said.proxies.at(mark_of(mesh.key("s0"))).generation = 0;
    said.proxies.at(mark_of(mesh.key("s0"))).presence = ProxyLine::Presence::kReturning;
    mesh.tell(said);
    CHECK(mesh.ask(target("s0")).phase == ObjectPhase::kPending);
    CHECK(mesh.ask(target("s1")).phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a replica that has not read the present version is behind, and named") {
    Sum mesh;
    const ReplicaReport before = mesh.fresh();
    mesh.put_routes("s0", "/new");
    mesh.settle();
    mesh.tell(before);
    ObjectStatus status = mesh.ask(routes("s0"));
    CHECK(status.phase == ObjectPhase::kPending);
    CHECK(status.replicas_behind == std::vector<std::string>{"b"});
    CHECK(status.applied == 1);
    // Objects for other proxies are the same at both.
    CHECK(mesh.ask(target("s1")).phase == ObjectPhase::kApplied);
    mesh.tell(mesh.fresh());
    CHECK(mesh.ask(routes("s0")).phase == ObjectPhase::kApplied);

    const ReplicaReport with = mesh.fresh();
    mesh.spec.remove(target("s0"));
    mesh.settle();
    mesh.tell(with);
    status = mesh.ask(target("s0"));
    CHECK(status.removed);
    CHECK(status.phase == ObjectPhase::kPending);
    mesh.tell(mesh.fresh());
    CHECK(mesh.ask(target("s0")).phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a report from before a change that was taken back proves nothing") {
    Sum mesh;
    mesh.put_routes("s0", "/new");
    mesh.settle();
    mesh.put_routes("s0", "/good");  // as it was when the other replica reported
    mesh.settle();
    CHECK(mesh.ask(routes("s0")).replicas_behind == std::vector<std::string>{"b"});
    CHECK(mesh.ask(target("s1")).phase == ObjectPhase::kApplied);
    mesh.tell(mesh.fresh());
    CHECK(mesh.ask(routes("s0")).phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a machine that another replica still sends to is behind there") {
    Sum mesh;
    const ReplicaReport before = mesh.fresh();
    mesh.provider.set_endpoints(values::service_name("s1"), {});
    mesh.settle();
    mesh.tell(before);
    const ObjectKey machine{kinds::kVirtualMachine, values::kNs, "s1"};
    CHECK(mesh.ask(machine).replicas_behind == std::vector<std::string>{"b"});
    CHECK(mesh.ask(machine).phase == ObjectPhase::kPending);
    mesh.tell(mesh.fresh());
    CHECK(mesh.ask(machine).phase == ObjectPhase::kApplied);
  }

  TEST_CASE("settings of the mesh are compared, and endpoints that come and go are not") {
    Sum mesh;
    const ObjectKey config{kinds::kMeshConfig, "osm-system", "osm-mesh-config"};
    ReplicaReport said = mesh.fresh();
    said.digests.endpoints.fill(17);
    mesh.tell(said);
    CHECK(mesh.ask(config).phase == ObjectPhase::kApplied);
    ++said.digests.settings;
    mesh.tell(said);
    CHECK(mesh.ask(config).replicas_behind == std::vector<std::string>{"b"});
    CHECK(mesh.ask(target("s0")).phase == ObjectPhase::kApplied);
  }

  TEST_CASE("a replica that has just come is waited for, and one that cannot tell is named") {
    Sum mesh;
    mesh.others.replicas.front() = {.name = "b", .report = {}, .starting = true};
    ObjectStatus status = mesh.ask(target("s0"));
    CHECK(status.phase == ObjectPhase::kPending);
    CHECK(status.replicas_behind == std::vector<std::string>{"b"});
    mesh.others.replicas.front().starting = false;
    status = mesh.ask(target("s0"));
    CHECK(status.phase == ObjectPhase::kApplied);
    CHECK(status.replicas_unknown == std::vector<std::string>{"b"});
    ReplicaReport part = mesh.fresh();
    part.all_proxies = false;
    mesh.tell(part);
    status = mesh.ask(target("s0"));
    CHECK(status.phase == ObjectPhase::kApplied);
    CHECK(status.concerned == 2);
    CHECK(status.replicas_unknown == std::vector<std::string>{"b"});
  }

  TEST_CASE("while it is not known who lives nothing is applied") {
    Sum mesh;
    mesh.others.known = false;
    const ObjectStatus status = mesh.ask(target("s0"));
    CHECK(status.phase == ObjectPhase::kPending);
    CHECK_FALSE(status.replicas_known);
    CHECK(status.applied == 2);
  }

  TEST_CASE("an object that a proxy of another replica refuses is refused, with its words") {
    Sum mesh;
    ReplicaReport said = mesh.fresh();
    said.refusals[routes("s0")][mesh.key("s0")].detail = "regex is too large";
    mesh.tell(said);
    ObjectStatus status = mesh.ask(routes("s0"));
    CHECK(status.phase == ObjectPhase::kRefused);
    REQUIRE(status.lagging.size() == 1);
    CHECK(status.lagging.front().refused);
    CHECK(status.lagging.front().detail == "regex is too large");
    CHECK(mesh.ask(target("s0")).phase == ObjectPhase::kApplied);

    said = mesh.lagging(routes("s0"));  // it keeps its last content
    said.notes[mark_of(mesh.key("s0"))].words[4] = "not that";
    said.proxies.at(mark_of(mesh.key("s0"))).states[4] = SyncState::kStale;
    mesh.tell(said);
    status = mesh.ask(routes("s0"));
    CHECK(status.phase == ObjectPhase::kRefused);
    CHECK(status.lagging.front().detail == "not that");
  }

  TEST_CASE("a proxy that is here counts as this replica knows it") {
    Sum mesh;
    mesh.tell(mesh.lagging(routes("s0")));
    mesh.proxies.here.insert(Sum::key("s0"));
    const ObjectStatus status = mesh.ask(routes("s0"));
    CHECK(status.phase == ObjectPhase::kApplied);
    CHECK(status.concerned == 2);
  }
}
