// A stream is admitted, waits for its workload or is refused, a newer one supersedes it, and a full
// replica takes no further proxies.
#include "ads/admission.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>

#include "ads/mesh_fixture.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::Admission;
using ads::CloseCode;
using ads::Stream;
using ads::StreamId;
using translate_test::kClient;

namespace {

const ProxyId kOtherId{"33333333-3333-4333-8333-333333333333"};
const model::ProxyKey kClientKey{kClient.ns, kClientId};

struct Closed {
  CloseCode code{};
  std::string text;
  bool cut = false;
};

struct Rig {
  Rig() { publish(); }

  void publish() { admission.on_snapshot(mesh.next()); }
  Stream& add(const ProxyId& id = kClientId, const TrustDomain& domain = kDomain) {
    ads::Peer peer;
    peer.identity = {id, {kClient.ns, kClient.name}};
    peer.address = "ipv4:10.0.0.1:40000";
    peer.not_before = clock.wall_now();
    peer.not_after = clock.wall_now() + 24h;
    peer.trust_domain = domain;
    return streams.add(++last_id, std::move(peer), nullptr);
  }
  // Opens a stream that is served at once.
  StreamId serve(const ProxyId& id = kClientId) {
    CHECK(admission.admit(add(id)));
    admission.note_serving();
    return last_id;
  }
  // As the hub does.
  void close(StreamId id, Closed how) {
    streams.remove(id);
    admission.note_serving();
    closed[id] = std::move(how);
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{1};
  TestMesh mesh;
  ads::StreamTable streams;
  std::map<StreamId, Closed> closed;
  Admission admission{{kDomain},
                      {streams,
                       {executor, executor, clock, rng, log, metrics},
                       executor,
                       5s,
                       {},
                       [this](StreamId id, CloseCode code, const std::string& text, bool cut) {
                         close(id, {code, text, cut});
                       }}};
  StreamId last_id = 0;
};

}  // namespace

TEST_SUITE("ads::Admission") {
  TEST_CASE_FIXTURE(Rig,
                    "a newer stream supersedes an older one, and cuts it while it is written to") {
    const StreamId first = serve();
    CHECK(streams.serving(kClientKey) == streams.find(first));
    CHECK(streams.at(first).workload->workload.name.str() == "client/client-vm");
    const StreamId second = serve();
    REQUIRE(closed.contains(first));
    CHECK(closed[first].code == CloseCode::kAborted);
    CHECK(closed[first].text.starts_with("superseded: "));
    CHECK_FALSE(closed[first].cut);
    CHECK(streams.serving(kClientKey) == streams.find(second));

    streams.at(second).write_started = clock.steady_now();
    const StreamId third = serve();
    REQUIRE(closed.contains(second));
    CHECK(closed[second].cut);
    CHECK(streams.served(kClientKey) == std::vector<StreamId>{third});
  }

  TEST_CASE_FIXTURE(Rig, "the newest stream of an unknown workload waits for it, and no other") {
    CHECK_FALSE(admission.admit(add(kOtherId)));
    Stream& newer = add(kOtherId);
    CHECK_FALSE(admission.admit(newer));
    REQUIRE(closed.size() == 1);
    CHECK(closed[1].text.starts_with("superseded: "));
    executor.run_for(4s);
    SUBCASE("which appears") {
      mesh.put(workload(kOtherId, kClient, {}));
      publish();
      CHECK(admission.admit(newer));
      CHECK(streams.waiting(newer.key()).empty());
      executor.run_for(10s);
      CHECK(closed.size() == 1);
    }
    SUBCASE("which does not appear in time") {
      CHECK_FALSE(
          admission.admit(newer));  // a change of something else does not begin the wait again
      executor.run_for(1s);
      REQUIRE(closed.contains(2));
      CHECK(closed[2].code == CloseCode::kUnavailable);
      CHECK(closed[2].text.starts_with("unknown-proxy: "));
    }
  }

  TEST_CASE_FIXTURE(Rig, "a full replica refuses a further proxy, and none that it serves") {
    mesh.put(workload(kOtherId, kClient, {}));
    mesh.set_max_proxies(1);
    publish();
    CHECK_FALSE(admission.full());
    const StreamId first = serve();
    CHECK(admission.full());
    CHECK(metrics.value("osm_proxy_connect_count") == 1);
    CHECK_FALSE(admission.admit(add(kOtherId)));
    REQUIRE(closed.contains(last_id));
    CHECK(closed[last_id].code == CloseCode::kResourceExhausted);
    CHECK(metrics.value("osm_proxy_max_connections_rejected") == 1);
    CHECK(admission.keep(streams.at(first)));
    const StreamId again = serve();  // takes its own place
    CHECK(admission.full());

    mesh.set_max_proxies(2);
    publish();
    CHECK_FALSE(admission.full());
    serve(kOtherId);
    CHECK(admission.full());
    CHECK(streams.find(again));
  }

  // Its first request would be handled before the pause of the other stream's.
  TEST_CASE_FIXTURE(Rig, "a certificate in its pause for too many names gets no further stream") {
    ads::ProxyMemory& memory = admission.memory();
    serve();
    CHECK(memory.charge(kClientKey, ads::ProxyMemory::kSpareBurst, clock.steady_now()) == 0s);
    const StreamId served = serve();
    CHECK(memory.charge(kClientKey, 10'000, clock.steady_now()) == 10s);
    CHECK_FALSE(admission.admit(add()));
    REQUIRE(closed.contains(last_id));
    CHECK(closed[last_id].code == CloseCode::kResourceExhausted);
    CHECK(closed[last_id].text.starts_with("unavailable: "));
    CHECK(admission.keep(streams.at(served)));
    mesh.put(workload(kOtherId, kClient, {}));
    publish();
    serve(kOtherId);
    executor.run_for(10s);
    serve();
  }

  TEST_CASE_FIXTURE(Rig, "a served stream goes with its workload, or with its workload's account") {
    const StreamId id = serve();
    const auto before = streams.at(id).workload;
    mesh.put(workload(kClientId, kClient, {}));
    publish();
    CHECK(admission.keep(streams.at(id)));
    CHECK(streams.at(id).workload != before);
    SUBCASE("which is removed") {
      mesh.remove_workload(kClientKey);
      publish();
      CHECK_FALSE(admission.keep(streams.at(id)));
      CHECK(closed[id].code == CloseCode::kUnavailable);
      CHECK(closed[id].text.starts_with("unknown-proxy: "));
    }
    SUBCASE("which is another now") {
      mesh.put(workload(kClientId, {kClient.ns, "somebody-else"}, {}));
      publish();
      CHECK_FALSE(admission.keep(streams.at(id)));
      CHECK(closed[id].code == CloseCode::kPermissionDenied);
      CHECK(closed[id].text.starts_with("identity-mismatch: "));
    }
    CHECK(streams.empty());
  }

  TEST_CASE_FIXTURE(Rig, "a certificate that has ended is refused, known or not") {
    Stream& stream = add(kOtherId);
    stream.peer.not_after = clock.wall_now();
    CHECK_FALSE(admission.admit(stream));
    REQUIRE(closed.contains(last_id));
    CHECK(closed[last_id].code == CloseCode::kUnauthenticated);
  }

  TEST_CASE_FIXTURE(Rig, "a trust domain that is none of the mesh's any more ends its streams") {
    const TrustDomain next("new.example");
    const StreamId of_next = add(kOtherId, next).id;
    const StreamId of_old = serve();
    admission.accept({next});
    CHECK(admission.accepted_domains() == std::vector<TrustDomain>{next});
    REQUIRE(closed.size() == 1);
    CHECK(closed[of_old].code == CloseCode::kPermissionDenied);
    CHECK(streams.find(of_next));
  }
}
