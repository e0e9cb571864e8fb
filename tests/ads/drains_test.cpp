// A machine drains itself and nobody else, within bounds.
//
// Permission of machines to drain themselves: without gRPC.
#include "ads/drains.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::CloseCode;
using translate_test::kClient;

namespace {

using DrainResponse = openservicemesh::certificate::v1::DrainMachineResponse;

struct DrainsRig : HubRig {
  struct Asked {
    std::shared_ptr<const model::WorkloadEntry> workload;
    std::function<void(ads::DrainAnswer)> done;
  };
  std::vector<Asked> asked;
  ads::DrainMachine drain = [this](auto workload, auto done) {
    asked.push_back({std::move(workload), std::move(done)});
  };
  ads::Drains drains{hub.admission(), clock, log, drain};

  std::shared_ptr<MemoryCall> call(const Result<ads::Peer>& who, const std::string& bytes = "") {
    auto call = std::make_shared<MemoryCall>();
    drains.answer(who, bytes, call);
    return call;
  }
};

}  // namespace

TEST_SUITE("ads::Drains") {
  TEST_CASE("a machine is drained by its own certificate, and is told how far it is") {
    DrainsRig rig;
    const auto call = rig.call(rig.peer(kClientId, kClient));
    REQUIRE(rig.asked.size() == 1);
    CHECK(rig.asked[0].workload->workload.name.str() == "client/client-vm");
    CHECK_FALSE(call->code);
    DrainResponse response;
    response.set_concerned(3);
    response.add_behind("shop/web-1");
    rig.asked[0].done(response);
    CHECK(call->code == CloseCode::kOk);
    CHECK(call->bytes == response.SerializeAsString());
  }

  TEST_CASE("a certificate of somebody else drains nobody") {
    DrainsRig rig;
    const ProxyId stranger("33333333-3333-4333-8333-333333333333");
    CHECK(rig.call(rig.peer(stranger, kClient))->code == CloseCode::kUnavailable);
    // The server's UUID, in a namespace and under an account that are not the server's.
    CHECK(rig.call(rig.peer(kServerId, kClient))->code == CloseCode::kUnavailable);
    CHECK(rig.call(rig.peer(kServerId, {"server", "other"}))->code == CloseCode::kPermissionDenied);
    CHECK(rig.call(Error{ErrorCode::kWrongCertificateKind, "a workload's"})->code ==
          CloseCode::kPermissionDenied);
    ads::Peer ended = rig.peer(kClientId, kClient);
    rig.clock.advance(24h);
    CHECK(rig.call(ended)->code == CloseCode::kUnauthenticated);
    CHECK(rig.asked.empty());
  }

  TEST_CASE("a message of another kind, and a stale replica, are refused") {
    DrainsRig rig;
    CHECK(rig.call(rig.peer(kClientId, kClient), "\xff\xff\xff")->code ==
          CloseCode::kInvalidArgument);
    rig.admits = Error{ErrorCode::kUnavailable, "stale: replica b reaches the API server"};
    CHECK(rig.call(rig.peer(kClientId, kClient))->code == CloseCode::kUnavailable);
    CHECK(rig.asked.empty());
  }

  TEST_CASE("lines about refused calls are bounded") {
    DrainsRig rig;
    for (int i = 0; i < 100; ++i) rig.call(rig.peer(kServerId, kClient));
    CHECK(rig.log.count("a machine's drain is refused") == 10);
    rig.clock.advance(10s);
    rig.call(rig.peer(kServerId, kClient));
    CHECK(rig.log.lines_with("a machine's drain is refused").back().fields.at("left_out") == "90");
  }

  TEST_CASE("calls that wait are bounded, and an answer makes room") {
    DrainsRig rig;
    for (std::size_t i = 0; i < ads::kMaxWaitingDrains; ++i)
      CHECK_FALSE(rig.call(rig.peer(kClientId, kClient))->code);
    CHECK(rig.call(rig.peer(kClientId, kClient))->code == CloseCode::kResourceExhausted);
    rig.asked.back().done(Error{ErrorCode::kUnavailable, "the record is away"});
    rig.asked.pop_back();
    CHECK_FALSE(rig.call(rig.peer(kClientId, kClient))->code);
  }
}
