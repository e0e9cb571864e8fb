// Calls for certificates, of anybody who has a certificate of the mesh: only a proxy of the mesh is
// answered, with the answer to its own call, once, and so often a minute.
//
//   input: steps: '0' to '5' a call (of the client, the server, a stranger, the server's UUID in
//   another account, a workload's certificate, an expired one), then '0' and bytes, or '1' and a
//   request (a line each); '6' the oldest question is answered, '7' refused, '8' dropped; '9' a
//   quarter of a minute passes.
#include "ads/renewals.hpp"

#include <array>
#include <deque>

#include "fuzz/fuzz.hpp"
#include "fuzz/hub_rig.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using namespace ads_test;
using ads::CloseCode;
using ads::Peer;

struct Call final : ads::UnaryCall {
  void finish(CloseCode finished, const std::string& said, const std::string& sent) override {
    require(!code, "a call is answered once");
    code = finished;
    text = said;
    bytes = sent;
  }
  std::optional<CloseCode> code;
  std::string text, bytes;
};

class World {
 public:
  void call(std::size_t who, Choices& choices) {
    ads::RenewalRequest wanted;
    std::string bytes;
    if (choices.flag()) {
      wanted.set_request_pem(choices.line());
      bytes = wanted.SerializeAsString();
    } else {
      bytes = choices.line();
    }
    const bool readable = wanted.ParseFromString(bytes);
    const auto call = std::make_shared<Call>();
    calls_.push_back(call);
    const std::size_t asked_before = questions_.size();
    renewals_.answer(peer(who), bytes, call);
    const bool asked = questions_.size() > asked_before;
    require(asked != call->code.has_value(), "a call is put or refused");
    if (!asked) {
      require(*call->code != CloseCode::kOk && !call->text.empty() && call->bytes.empty(),
              "a refusal says why", call->text);
      return;
    }
    require(who < 2 && readable, "only a proxy of the mesh may ask");
    const ads::RenewalQuestion& question = questions_.back().question;
    require(question.peer.identity.id == (who == 0 ? kClientId : kServerId) &&
                question.workload->proxy.id == question.peer.identity.id,
            "a question is of the proxy that asks");
    require(question.request.SerializeAsString() == wanted.SerializeAsString(),
            "a question is the proxy's");
    questions_.back().call = call;
    if (!wanted.request_pem().empty()) count(who);
  }

  void step(Choices& choices) {
    const std::size_t kind = choices.below(10);
    if (kind < 6) return call(kind, choices);
    if (kind == 9) {
      rig_.clock.advance(std::chrono::seconds(15));
      return;
    }
    if (questions_.empty()) return;
    Question first = std::move(questions_.front());
    questions_.pop_front();
    if (kind == 6) {
      openservicemesh::certificate::v1::RenewCertificateResponse answer;
      answer.set_common_name(first.question.request.request_pem());
      first.done(answer);
      require(first.call->code == CloseCode::kOk && first.call->bytes == answer.SerializeAsString(),
              "a call gets the answer to its own question");
    } else if (kind == 7) {
      first.done(Error{ErrorCode::kInvalidArgument, "another's name"});
      require(first.call->code == CloseCode::kInvalidArgument, "a call gets its refusal");
    }
  }

 private:
  struct Question {
    ads::RenewalQuestion question;
    std::function<void(ads::RenewalAnswer)> done;
    std::shared_ptr<Call> call{};
  };

  Result<Peer> peer(std::size_t who) {
    if (who == 4) return Error{ErrorCode::kWrongCertificateKind, "a workload's"};
    const ProxyId stranger("33333333-3333-4333-8333-333333333333");
    const ServiceIdentity other{translate_test::kServer.ns, "other"};
    const std::array<ProxyId, 6> ids{kClientId, kServerId, stranger, kServerId, {}, kClientId};
    const ServiceIdentity& account = who == 1   ? translate_test::kServer
                                     : who == 3 ? other
                                                : translate_test::kClient;
    const WallTime now = rig_.clock.wall_now();
    return Peer{{ids[who], {account.ns, account.name}},
                CommonName("proxy"),
                "ipv4:10.0.0.1:40000",
                now - std::chrono::hours(1),
                who == 5 ? now - std::chrono::seconds(1) : now + std::chrono::hours(24),
                {},
                kDomain};
  }

  // In any minute at most twice as many as in a window.
  void count(std::size_t who) {
    const SteadyTime now = rig_.clock.steady_now();
    std::deque<SteadyTime>& times = granted_[who];
    times.push_back(now);
    while (now - times.front() >= std::chrono::minutes(1)) times.pop_front();
    require(times.size() <= 2 * ads::kMaxCertificatesPerMinute, "certificates are rationed");
  }

  HubRig rig_;
  std::deque<Question> questions_;
  std::vector<std::shared_ptr<Call>> calls_;
  ads::RenewCertificate renew_ = [this](ads::RenewalQuestion question, auto done) {
    questions_.push_back({std::move(question), std::move(done)});
  };
  ads::Renewals renewals_{rig_.hub.admission(), rig_.clock, rig_.log, renew_};
  std::array<std::deque<SteadyTime>, 2> granted_;
};

void run(Choices choices) {
  World world;
  for (int steps = 0; steps < 200 && !choices.empty(); ++steps) world.step(choices);
}

const bool kAdded = add("renewal", [](std::string_view input) { run(Choices(input)); });

}  // namespace
