#include "ads/drains.hpp"

#include <utility>

namespace osm::inline v1::ads {

Result<std::shared_ptr<const model::WorkloadEntry>> Drains::machine_of(
    const Result<Peer>& peer, const std::string& bytes) const {
  if (!peer.ok()) return peer.error();
  OSM_TRY(admission_.admits());
  OSM_TRY(auto workload, admission_.workload_of(*peer));
  if (workload->proxy.kind != WorkloadKind::kMachine)
    return Error{ErrorCode::kInvalidArgument, workload->workload.name.str() +
                                                  " is a pod: delete the pod, and its endpoints "
                                                  "leave the mesh"};
  openservicemesh::certificate::v1::DrainMachineRequest request;
  if (!request.ParseFromString(bytes))
    return Error{ErrorCode::kInvalidArgument, "the message is no DrainMachineRequest"};
  return workload;
}

void Drains::answer(const Result<Peer>& peer, const std::string& bytes,
                    const std::shared_ptr<UnaryCall>& call) {
  auto workload = machine_of(peer, bytes);
  if (!workload.ok()) {
    const Error& why = workload.error();
    if (const auto left_out = refusals_logged_.admit())
      log_.warning("a machine's drain is refused",
                   {{"code", std::string(error_code_text(why.code))},
                    {"detail", why.message},
                    {"left_out", std::to_string(*left_out)}});
    return call->finish(close_code(why.code), why.text(), {});
  }
  if (*waiting_ >= kMaxWaitingDrains)
    return call->finish(CloseCode::kResourceExhausted,
                        "too many machines are drained at once; try again later", {});
  ++*waiting_;
  std::shared_ptr<void> place(nullptr, [waiting = waiting_](void*) { --*waiting; });
  drain_(*std::move(workload), [call, place = std::move(place)](const DrainAnswer& answer) {
    if (!answer.ok())
      return call->finish(close_code(answer.error().code), answer.error().text(), {});
    call->finish(CloseCode::kOk, {}, answer->SerializeAsString());
  });
}

}  // namespace osm::inline v1::ads
