// One object → the decoder of its kind: nothing that is missing, doubled, of another type or out of
// range may do more than leave the object out, with a reason.
//
//   input: '0', an object of the base mesh, then edits; or '1', a kind, then raw JSON.
#include <boost/json/value.hpp>

#include "fuzz/object_edits.hpp"
#include "osm/ids.hpp"
#include "spec/decode.hpp"
#include "spec/kinds.hpp"
#include "vm/virtual_machine.hpp"

namespace osm::fuzz {
namespace {

constexpr std::string_view kKinds[] = {spec::kService,
                                       spec::kServiceAccount,
                                       spec::kTrafficTarget,
                                       spec::kHttpRouteGroup,
                                       spec::kTcpRoute,
                                       spec::kTrafficSplit,
                                       spec::kMeshConfig,
                                       "VirtualMachine",
                                       spec::kMeshRootCertificate,
                                       spec::kEgress,
                                       spec::kIngressBackend,
                                       spec::kRetry,
                                       spec::kUpstreamTrafficSetting};

void check_problems(const Object& object, const std::vector<Problem>& problems, bool valid) {
  require(valid || !problems.empty(), "an object that is left out has a reason", object.json);
  for (const Problem& problem : problems) {
    require(problem.object == object.key, "a problem names its object", problem.text());
    require(!problem.cause.empty(), "a problem says what is wrong", problem.text());
  }
}

template <class T>
void check(const Object& object, const T& decoded) {
  check_problems(object, decoded.problems, decoded.value.has_value());
}

template <class Name>
void check_name(const Name& name) {
  require(is_dns_label(name.ns), "a namespace is a DNS label", name.ns);
  require(is_dns_subdomain(name.name), "a name is a DNS name", name.name);
}

void check_regexes(const smi::HttpRouteGroup& group) {
  for (const smi::HttpMatch& match : group.matches) {
    require(!spec::why_bad_regex(match.path_regex), "a path is a regex", match.path_regex);
    for (const auto& [name, regex] : match.headers)
      require(!spec::why_bad_regex(regex), "a header is a regex", regex);
  }
}

void decode(const Object& object) {
  const std::string& kind = object.key.kind;
  if (kind == spec::kService) {
    const auto decoded = spec::decode_service(object);
    check(object, decoded);
    if (decoded.value) check_name(decoded.value->name);
  } else if (kind == spec::kServiceAccount) {
    const auto decoded = spec::decode_service_account(object);
    check(object, decoded);
    if (decoded.value) check_name(*decoded.value);
  } else if (kind == spec::kTrafficTarget) {
    const auto decoded = spec::decode_traffic_target(object);
    check(object, decoded);
    if (!decoded.value) return;
    check_name(decoded.value->destination);
    for (const ServiceAccount& source : decoded.value->sources) check_name(source);
    require(decoded.value->destination.ns == object.key.ns,
            "a target shapes its own namespace only", object.json);
  } else if (kind == spec::kHttpRouteGroup) {
    const auto decoded = spec::decode_http_route_group(object);
    check(object, decoded);
    if (decoded.value) check_regexes(*decoded.value);
  } else if (kind == spec::kTcpRoute) {
    check(object, spec::decode_tcp_route(object));
  } else if (kind == spec::kTrafficSplit) {
    const auto decoded = spec::decode_traffic_split(object);
    check(object, decoded);
    if (!decoded.value) return;
    std::int64_t sum = 0;
    for (const smi::SplitBackend& backend : decoded.value->backends) {
      require(backend.weight >= 0, "a weight is not negative", object.json);
      sum += backend.weight;
    }
    require(sum > 0 && sum <= UINT32_MAX, "weights sum to what Envoy can add up", object.json);
  } else if (kind == spec::kMeshConfig) {
    const auto decoded = spec::decode_mesh_config(object);
    check(object, decoded);
    if (decoded.value)
      require(decoded.value->certificates.service_validity.count() > 0, "certificates live");
  } else if (kind == spec::kMeshRootCertificate) {
    const auto decoded = spec::decode_root_certificate(object);
    check(object, decoded);
    if (decoded.value)
      require(is_dns_subdomain(decoded.value->trust_domain.str()), "a trust domain is a DNS name");
  } else if (spec::is_unobeyed(kind)) {
    const auto decoded = spec::decode_policy(object);
    check(object, decoded);
    require(!decoded.problems.empty(), "that nothing obeys it is said", object.json);
  } else if (kind == vm::kKind) {
    const auto decoded = vm::decode_virtual_machine(object);
    check(object, decoded);
    if (!decoded.value) return;
    check_name(decoded.value->name);
    check_name(decoded.value->account);
    if (decoded.value->proxy_id)
      require(is_uuid(decoded.value->proxy_id->str()), "a proxy's id is a UUID");
  }
}

void run(Choices choices) {
  if (choices.flag()) {
    Object object;
    object.key = {std::string(kKinds[choices.below(std::size(kKinds))]), "b", "fuzz"};
    object.api_version = object.key.kind == vm::kKind ? vm::kApiVersion : "v1";
    object.json = std::string(choices.rest());
    decode(object);
    return;
  }
  boost::json::value document = base_objects()[choices.below(base_objects().size())];
  decode(object_of(document));
  for (int edits = 0; edits < 16 && !choices.empty(); ++edits) {
    edit(document, choices);
    decode(object_of(document));
  }
}

}  // namespace
}  // namespace osm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  osm::fuzz::run(osm::fuzz::Choices(osm::fuzz::text_of(data, size)));
  return 0;
}
