#include "ads/renewals.hpp"

#include <utility>

namespace osm::inline v1::ads {
namespace {

constexpr std::chrono::minutes kWindow{1};

void refuse(UnaryCall& call, const Error& why) {
  call.finish(close_code(why.code), why.text(), {});
}

}  // namespace

Result<RenewalQuestion> Renewals::read(Result<Peer> peer, const std::string& bytes) const {
  if (!peer) return std::move(peer).error();
  // A replica that does not know the newest mesh may not know that the proxy is denied.
  OSM_TRY(admission_.admits());
  OSM_TRY(auto workload, admission_.workload_of(*peer));
  RenewalQuestion question{*std::move(peer), std::move(workload), {}};
  if (!question.request.ParseFromString(bytes))
    return Error{ErrorCode::kInvalidArgument, "the message is no RenewCertificateRequest"};
  return question;
}

void Renewals::answer(Result<Peer> peer, const std::string& bytes,
                      const std::shared_ptr<UnaryCall>& call) {
  Result<RenewalQuestion> question = read(std::move(peer), bytes);
  if (!question) {
    if (const auto left_out = refusals_logged_.admit())
      log_.warning("a proxy's renewal is refused",
                   {{"code", std::string(error_code_text(question.error().code))},
                    {"detail", question.error().message},
                    {"left_out", std::to_string(*left_out)}});
    return refuse(*call, question.error());
  }
  std::shared_ptr<void> place;  // place in the queue until the call is answered or dropped
  if (!question->request.request_pem().empty() ||
      !question->request.workload_request_pem().empty()) {
    if (too_often(question->workload->proxy))
      return call->finish(CloseCode::kResourceExhausted,
                          "this proxy was given " + std::to_string(kMaxCertificatesPerMinute) +
                              " certificates within a minute; try again later",
                          {});
    if (*waiting_ >= kMaxWaitingRenewals)
      return call->finish(CloseCode::kResourceExhausted,
                          "too many proxies renew at once; try again later", {});
    ++*waiting_;
    place = std::shared_ptr<void>(nullptr, [waiting = waiting_](void*) { --*waiting; });
  }
  renew_(*std::move(question), [call, place = std::move(place)](RenewalAnswer answer) {
    if (!answer) return refuse(*call, answer.error());
    call->finish(CloseCode::kOk, {}, answer->SerializeAsString());
  });
}

bool Renewals::too_often(const model::ProxyKey& proxy) {
  const SteadyTime now = clock_.steady_now();
  if (now - forgotten_at_ >= kWindow) {
    std::erase_if(windows_, [&](const auto& one) { return now - one.second.since >= kWindow; });
    forgotten_at_ = now;
  }
  Window& window = windows_.try_emplace(proxy, Window{now}).first->second;
  if (now - window.since >= kWindow) window = {now};
  return ++window.certificates > kMaxCertificatesPerMinute;
}

}  // namespace osm::inline v1::ads
