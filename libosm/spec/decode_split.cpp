// TrafficSplit, split.smi-spec.io/v1alpha2.
#include <cstdint>
#include <set>
#include <string_view>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "model/cluster_names.hpp"
#include "model/host.hpp"
#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::int64_t kMaxWeight = 1'000'000;
static_assert(kMaxWeight * static_cast<std::int64_t>(kMaxEntries) <= UINT32_MAX,
              "Envoy's sum of weights has 32 bits");

// A Service as a split names it.
struct NamedService {
  std::string name;
  bool with_port = false;
};

// Namespace of the split, and the domain of the cluster's DNS.
struct Place {
  const std::string& ns;
  const std::string& cluster_domain;
};

// Reads "svc", "svc.ns", "svc.ns.svc", "svc.ns.svc.cluster" and "svc.ns.svc.<domain>", each with or
// without ":port". The namespace must be the split's own.
Result<NamedService> service_of(std::string_view text, const Place& own) {
  const Error unreadable{ErrorCode::kInvalidField,
                         "is not the name of a Service; write api or api." + own.ns + ".svc." +
                             own.cluster_domain + " for a Service api"};
  const auto written = model::host_of(text);
  if (!written) return unreadable;
  const bool with_port = written->port.has_value();
  const std::string_view host = written->name;
  const auto dot = host.find('.');
  const std::string name(host.substr(0, dot));
  if (dot == std::string_view::npos) return NamedService{name, with_port};

  const std::string_view rest = host.substr(dot + 1);
  const auto second = rest.find('.');
  const std::string_view suffix =
      second == std::string_view::npos ? std::string_view() : rest.substr(second);
  if (suffix == ".svc.cluster" || model::names_service(suffix, own.cluster_domain)) {
    if (rest.substr(0, second) == own.ns) return NamedService{name, with_port};
    return Error{ErrorCode::kCrossNamespace,
                 "must be a Service of the split's own namespace, " + own.ns};
  }
  // "api-0.api.shop.svc": a name that the original accepts.
  const auto third = suffix.find('.', 1);
  if (suffix.substr(1, third - 1) == own.ns)
    return Error{ErrorCode::kInvalidField, "is the name of one pod of a headless Service; write " +
                                               std::string(rest.substr(0, second)) +
                                               ", the name of the Service"};
  return unreadable;
}

void note_port(const Field& field, const NamedService& service) {
  if (service.with_port)
    field.note("the port has no effect: a split divides every port of its Service; write " +
               service.name);
}

ServiceName apex_of(const Field& field, const Place& own) {
  const std::string text = field.required_text();
  if (text.empty()) return {};
  const auto service = service_of(text, own);
  if (!service.ok()) {
    field.refuse(service.error().message, service.error().code);
    return {};
  }
  note_port(field, *service);
  return {own.ns, service->name};
}

// The name of a backend's Service; empty: the backend cannot be used, which is reported.
std::string backend_of(const Field& field, const Place& own) {
  const std::string text = field.required_text();
  if (text.empty()) return {};
  const auto service = service_of(text, own);
  if (!service.ok()) {
    field.note(
        service.error().message + "; this backend is left out, and the others share its part",
        service.error().code);
    return {};
  }
  note_port(field, *service);
  return service->name;
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

Decoded<smi::TrafficSplit> decode_traffic_split(const Object& object,
                                                const std::string& cluster_domain) {
  const Place own{object.key.ns, cluster_domain};
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::TrafficSplit split;
  split.name = {object.key.ns, object.key.name};
  const auto [map, apex, backends] = reader.root()["spec"].required_map("service", "backends");
  if (!map) return std::move(reader).finish(std::move(split));
  split.service = apex_of(apex, own);
  std::set<std::string> names;
  std::int64_t sum = 0;
  const std::vector<Field> fields = backends.required().list();
  for (std::size_t place = 0; place < fields.size(); ++place) {
    const auto [is_map, service, weight] = fields[place].required_map("service", "weight");
    if (!is_map) continue;
    smi::SplitBackend backend{backend_of(service, own), weight_of(weight), place};
    if (backend.service.empty()) continue;
    if (!names.insert(backend.service).second)
      service.refuse("two backends name this service; add their weights up");
    sum += backend.weight;
    split.backends.push_back(std::move(backend));
  }
  // The object is kept: without it, the Service's own endpoints would get the traffic that its
  // author took from them.
  if (sum == 0 && reader.findings().valid())
    backends.note(
        "the weights sum to 0: requests get 503 and TCP connections are closed; give at least one "
        "backend a weight above 0, or delete the split",
        ErrorCode::kInvalidWeights);
  return std::move(reader).finish(std::move(split));
}

}  // namespace osm::inline v1::spec
