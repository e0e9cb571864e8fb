#include "explain/call.hpp"

namespace osm::inline v1::explain {

const model::Upstream* ExplainedCall::upstream(const ServiceName& service) const {
  return model::find_upstream(*mesh.upstreams_of(source), service);  // the snapshot keeps it
}

const model::Upstream* ExplainedCall::dialled(const ServiceName& service) const {
  const auto* found = upstream(service);
  return found != nullptr && found->dialled ? found : nullptr;
}

const SpecSnapshot& ExplainedCall::objects() const { return *mesh.objects; }

ExplainedStep step(std::string stage, StepEffect effect, std::string text, ObjectKey object,
                   std::string field) {
  return {std::move(stage), effect, std::move(object), std::move(field), std::move(text)};
}

ExplainedStep step(std::string stage, StepEffect effect, std::string text,
                   const model::Origin& origin) {
  return step(std::move(stage), effect, std::move(text), origin.object, origin.field);
}

ExplainedWay refusal(ExplainedStep denial, int status) {
  ExplainedWay out;
  out.steps.push_back(std::move(denial));
  out.answer.status = status;
  return out;
}

ObjectKey object_of(const smi::ObjectName& target) {
  return {kinds::kTrafficTarget, target.ns, target.name};
}

std::string list_ports(const model::ServiceEntry& service) {
  std::string out;
  for (const MeshService& port : service.ports)
    out += (out.empty() ? "" : ", ") + std::to_string(number(port.port)) + " (" +
           std::string(protocol_text(port.protocol)) + ')';
  return out.empty() ? "none" : out;
}

std::string list_numbers(const std::vector<Port>& ports) {
  std::string out;
  for (const Port port : ports) out += (out.empty() ? "" : ",") + std::to_string(number(port));
  return out;
}

}  // namespace osm::inline v1::explain
