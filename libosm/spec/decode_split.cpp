// TrafficSplit, split.smi-spec.io/v1alpha2.
#include <array>
#include <set>

#include "base/json.hpp"
#include "model/names.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::int64_t kMaxWeight = 1'000'000;  // Envoy's sum is 32 bits

// Accepts "svc", "svc.ns", "svc.ns.svc" and "svc.ns.svc.cluster.local". The namespace must be the
// split's own.
ServiceName apex_of(const Field& field, const std::string& own_namespace) {
  const std::string text = field.required_text();
  if (text.empty()) return {};
  const auto dot = text.find('.');
  const std::string service = text.substr(0, dot);
  if (!is_dns_label(service)) {
    field.refuse(kNotALabel);
    return {};
  }
  if (dot == std::string::npos) return {own_namespace, service};
  const std::string rest = text.substr(dot + 1);
  const auto second_dot = rest.find('.');
  const std::string ns = rest.substr(0, second_dot);
  const std::string suffix = second_dot == std::string::npos ? "" : rest.substr(second_dot);
  if (!(suffix.empty() || suffix == ".svc" || suffix == ".svc.cluster" ||
        suffix == ".svc.cluster.local")) {
    field.refuse("not a service name; write " + service + " or " + service + '.' + own_namespace +
                 ".svc.cluster.local");
  } else if (ns != own_namespace) {
    field.refuse("must be a service of the split's own namespace, " + own_namespace,
                 ErrorCode::kCrossNamespace);
  }
  return {own_namespace, service};
}

int weight_of(const Field& field) {
  if (!field.present()) {
    field.refuse("required", ErrorCode::kInvalidWeights);
    return 0;
  }
  const auto weight = whole_number(*field.value());
  if (!weight) {
    field.refuse(
        "must be a whole number such as 50; text, fractions and quantities such as 500m "
        "are not understood",
        ErrorCode::kInvalidWeights);
    return 0;
  }
  if (*weight < 0 || *weight > kMaxWeight) {
    field.refuse("must be from 0 to " + std::to_string(kMaxWeight), ErrorCode::kInvalidWeights);
    return 0;
  }
  return static_cast<int>(*weight);
}

}  // namespace

Decoded<smi::TrafficSplit> decode_traffic_split(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::TrafficSplit split;
  split.name = {object.key.ns, object.key.name};
  const Field spec = reader.root()["spec"];
  if (!spec.required_map({"service", "backends"}))
    return std::move(reader).finish(std::move(split));
  split.service = apex_of(spec["service"], object.key.ns);
  const Field backends = spec["backends"];
  std::set<std::string> names;
  std::int64_t sum = 0;
  for (const Field& field : backends.required().list()) {
    if (!field.required_map({"service", "weight"})) continue;
    smi::SplitBackend backend{required_label(field["service"]), weight_of(field["weight"])};
    if (!backend.service.empty() && !names.insert(backend.service).second)
      field["service"].refuse("two backends name this service; add their weights up");
    sum += backend.weight;
    split.backends.push_back(std::move(backend));
  }
  if (backends.present() && backends.value()->is_array() && reader.findings().valid()) {
    if (sum < 1)
      backends.refuse("the weights sum to 0, so no request could be served; give one at least 1",
                      ErrorCode::kInvalidWeights);
    if (sum > UINT32_MAX)
      backends.refuse("the weights sum to more than 4294967295", ErrorCode::kInvalidWeights);
  }
  return std::move(reader).finish(std::move(split));
}

}  // namespace osm::inline v1::spec
