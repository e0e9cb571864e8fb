// Renewals are limited per proxy, and answered for admitted workloads and by replicas that admit
// proxies only.
//
// Permission and frequency of renewals: without gRPC, on a clock that moves when the
// test says so.
#include "ads/renewals.hpp"

#include <doctest/doctest.h>

#include "ads/hub_rig.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::CloseCode;
using translate_test::kClient;
using translate_test::kServer;

namespace {

using Response = openservicemesh::certificate::v1::RenewCertificateResponse;

using Call = std::shared_ptr<MemoryCall>;

std::string request(const std::string& pem) {
  ads::RenewalRequest message;
  message.set_request_pem(pem);
  return message.SerializeAsString();
}

struct Rig : HubRig {
  struct Asked {
    ads::RenewalQuestion question;
    std::function<void(ads::RenewalAnswer)> done;
  };
  std::vector<Asked> asked;
  ads::RenewCertificate renew = [this](ads::RenewalQuestion question, auto done) {
    asked.push_back({std::move(question), std::move(done)});
  };
  ads::Renewals renewals{hub.admission(), clock, log, renew};

  Call call(Result<ads::Peer> who, const std::string& bytes) {
    auto call = std::make_shared<MemoryCall>();
    renewals.answer(std::move(who), bytes, call);
    return call;
  }
  Call client_calls(const std::string& pem = "a request") {
    return call(peer(kClientId, kClient), request(pem));
  }
};

}  // namespace

TEST_SUITE("ads::Renewals") {
  TEST_CASE("a call is identified by certificate and mesh, and gets the callback's answer") {
    Rig rig;
    const Call call = rig.client_calls();
    REQUIRE(rig.asked.size() == 1);
    CHECK(rig.asked[0].question.peer.identity.id == kClientId);
    CHECK(rig.asked[0].question.workload->workload.name.str() == "client/client-vm");
    CHECK(rig.asked[0].question.request.request_pem() == "a request");
    CHECK_FALSE(call->code);
    Response response;
    response.set_common_name("somebody");
    rig.asked[0].done(response);
    CHECK(call->code == CloseCode::kOk);
    CHECK(call->bytes == response.SerializeAsString());
  }

  TEST_CASE("a caller that may not open a stream is refused without the callback") {
    Rig rig;
    const ProxyId stranger("33333333-3333-4333-8333-333333333333");
    CHECK(rig.call(rig.peer(stranger, kClient), request("x"))->code == CloseCode::kUnavailable);
    // Another proxy's UUID, in its namespace and in one's own.
    CHECK(rig.call(rig.peer(kServerId, kClient), request("x"))->code == CloseCode::kUnavailable);
    CHECK(rig.call(rig.peer(kServerId, {"server", "other"}), request("x"))->code ==
          CloseCode::kPermissionDenied);
    const Error workloads{ErrorCode::kWrongCertificateKind, "a workload's"};
    CHECK(rig.call(workloads, request("x"))->code == CloseCode::kPermissionDenied);
    ads::Peer ended = rig.peer(kClientId, kClient);
    rig.clock.advance(24h);
    CHECK(rig.call(ended, request("x"))->code == CloseCode::kUnauthenticated);
    CHECK(rig.asked.empty());
  }

  TEST_CASE("lines about refused calls are bounded") {
    Rig rig;
    for (int i = 0; i < 100; ++i) rig.call(rig.peer(kServerId, kClient), request("x"));
    CHECK(rig.log.count("a proxy's renewal is refused") == 10);
    rig.clock.advance(10s);
    rig.call(rig.peer(kServerId, kClient), request("x"));
    CHECK(rig.log.lines_with("a proxy's renewal is refused").back().fields.at("left_out") == "90");
  }

  TEST_CASE("a machine that has left the mesh is given no certificate") {
    Rig rig;
    rig.mesh.remove_workload({"client", kClientId});
    rig.publish();
    const Call call = rig.client_calls();
    CHECK(call->code == CloseCode::kUnavailable);
    CHECK(call->text.find("unknown-proxy: ") == 0);
    CHECK(rig.asked.empty());
  }

  TEST_CASE("a stale replica gives no certificate, and says which replica does") {
    Rig rig;
    rig.admits = Error{ErrorCode::kUnavailable, "stale: replica b reaches the API server"};
    const Call call = rig.client_calls();
    CHECK(call->code == CloseCode::kUnavailable);
    CHECK(call->text == "unavailable: stale: replica b reaches the API server");
    CHECK(rig.asked.empty());
    rig.admits = {};
    CHECK_FALSE(rig.client_calls()->code);
    CHECK(rig.asked.size() == 1);
  }

  TEST_CASE("bytes that are no request are refused") {
    Rig rig;
    CHECK(rig.call(rig.peer(kClientId, kClient), "\xff\xff\xff")->code ==
          CloseCode::kInvalidArgument);
    CHECK(rig.asked.empty());
  }

  TEST_CASE("an error of the callback becomes the caller's status") {
    Rig rig;
    const Call call = rig.client_calls();
    rig.asked.at(0).done(Error{ErrorCode::kInvalidArgument, "another's name"});
    CHECK(call->code == CloseCode::kInvalidArgument);
    CHECK(call->text == "invalid-argument: another's name");
  }

  TEST_CASE("certificates per proxy and minute are limited; questions are not") {
    Rig rig;
    for (unsigned i = 0; i < ads::kMaxCertificatesPerMinute; ++i) {
      CHECK_FALSE(rig.client_calls()->code);
      rig.asked.at(i).done(Response());
    }
    CHECK(rig.client_calls()->code == CloseCode::kResourceExhausted);
    CHECK(rig.asked.size() == ads::kMaxCertificatesPerMinute);
    CHECK_FALSE(rig.client_calls("")->code);
    CHECK_FALSE(rig.call(rig.peer(kServerId, kServer), request("x"))->code);
    rig.clock.advance(59s);
    CHECK(rig.client_calls()->code == CloseCode::kResourceExhausted);
    rig.clock.advance(1s);
    CHECK_FALSE(rig.client_calls()->code);
  }

  TEST_CASE("so many wait at once, and a place is free when its answer is there or given up") {
    Rig rig;
    std::vector<ProxyId> ids;
    for (std::size_t i = 0; i <= ads::kMaxWaitingRenewals; ++i) {
      char text[40];
      std::snprintf(text, sizeof text, "44444444-4444-4444-8444-%012zx", i);
      ids.emplace_back(text);
      rig.mesh.put(workload(ids.back(), kClient, {}));
    }
    rig.publish();
    for (std::size_t i = 0; i < ads::kMaxWaitingRenewals; ++i)
      CHECK_FALSE(rig.call(rig.peer(ids[i], kClient), request("x"))->code);
    const auto another = [&] {
      return rig.call(rig.peer(ids.back(), kClient), request("x"))->code;
    };
    CHECK(another() == CloseCode::kResourceExhausted);
    CHECK_FALSE(rig.call(rig.peer(ids.back(), kClient), request(""))->code);
    rig.asked.front().done(Response());
    CHECK(another() == CloseCode::kResourceExhausted);  // the answer is there, and not let go of
    rig.asked.erase(rig.asked.begin());
    CHECK_FALSE(another());
    CHECK(another() == CloseCode::kResourceExhausted);
    rig.asked.clear();  // as a queue that is stopped does
    CHECK_FALSE(another());
  }
}
