// TrafficTarget and the routes it names. https://github.com/servicemeshinterface/smi-spec
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "spec/decoder.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxRegexBytes = 1024;
constexpr int kMaxRegexProgram = 1000;
// Limit for matches named by all rules of one TrafficTarget.
constexpr std::size_t kMaxTargetMatches = 1024;
constexpr std::array<std::string_view, 9> kMethods{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS",
                                                   "PATCH",   "POST",   "PUT", "TRACE"};

template <class Char>
std::string mapped(std::string text, Char change) {
  for (char& c : text) c = static_cast<char>(change(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> methods_of(const Field& field) {
  std::set<std::string> methods;
  bool any = false;
  for (const Field& item : field.list()) {
    const std::string method =
        mapped(item.required_text(), [](unsigned char c) { return std::toupper(c); });
    if (method == "*") {
      any = true;
    } else if (std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end()) {
      methods.insert(method);
    } else if (!method.empty()) {
      item.refuse(
          "not an HTTP method; use GET, HEAD, POST, PUT, PATCH, DELETE, CONNECT, OPTIONS, TRACE "
          "or *");
    }
  }
  if (any) methods.clear();
  return {methods.begin(), methods.end()};
}

void add_headers(const Field& map, std::map<std::string, std::string>& headers, int& cost) {
  for (const auto& [key, field] : map.members()) {
    const std::string name = mapped(key, [](unsigned char c) { return std::tolower(c); });
    if (!is_header_name(name)) field.refuse("not an HTTP header name");
    std::string regex = field.required_text();
    check_regex(field, regex, cost);
    if (!headers.emplace(name, std::move(regex)).second) field.refuse("the header is given twice");
  }
}

// A list of maps as in SMI (each with one entry; several are accepted), or one map.
std::map<std::string, std::string> headers_of(const Field& field, int& cost) {
  std::map<std::string, std::string> headers;
  if (!field.present()) return headers;
  if (field.value()->is_object()) {
    add_headers(field, headers, cost);
  } else {
    for (const Field& item : field.list()) {
      if (item.required_map()) add_headers(item, headers, cost);
    }
  }
  return headers;
}

smi::HttpMatch match_of(const Field& field, int& cost) {
  smi::HttpMatch match;
  if (!field.required_map({"name", "pathRegex", "methods", "headers"})) return match;
  match.name = field["name"].required_text();
  const Field path = field["pathRegex"];
  if (auto regex = path.text(); regex && !regex->empty()) {
    match.path_regex = *std::move(regex);
    check_regex(path, match.path_regex, cost);
  }
  match.methods = methods_of(field["methods"]);
  match.headers = headers_of(field["headers"], cost);
  return match;
}

// Never fills in an empty namespace: it would match nothing, or too much.
ServiceAccount account_of(const Field& field) {
  const auto [ns, name] = required_reference(field, kinds::kServiceAccount,
                                             ": only accounts are identities in the mesh");
  return {ns, name};
}

ServiceAccount destination_of(const Field& field, const std::string& own_namespace) {
  ServiceAccount account = account_of(field);
  if (!account.ns.empty() && account.ns != own_namespace)
    field["namespace"].refuse("must be the TrafficTarget's own namespace, " + own_namespace +
                                  ": nobody grants access to another namespace's accounts",
                              ErrorCode::kCrossNamespace);
  return account;
}

smi::TrafficTargetRule rule_of(const Field& field) {
  smi::TrafficTargetRule rule;
  if (!field.required_map({"kind", "name", "matches"})) return rule;
  const std::string kind = field["kind"].required_text();
  rule.name = required_subdomain(field["name"]);
  const Field matches = field["matches"];
  if (kind == kinds::kTcpRoute.kind) {
    rule.kind = smi::RouteKind::kTcpRoute;
    if (matches.present()) matches.note("a TCPRoute rule has no matches; they have no effect");
    return rule;
  }
  if (!kind.empty() && kind != kinds::kHttpRouteGroup.kind)
    field["kind"].refuse("must be HTTPRouteGroup or TCPRoute");
  std::set<std::string> seen;
  for (std::string& name : matches.text_list())
    if (seen.insert(name).second) rule.matches.push_back(std::move(name));
  if (kind == kinds::kHttpRouteGroup.kind && rule.matches.empty())
    field.note("names no matches of the HTTPRouteGroup, so it allows no HTTP request");
  return rule;
}

}  // namespace

std::optional<std::string> why_bad_regex(const std::string& regex, int* cost) {
  if (regex.size() > kMaxRegexBytes)
    return "the regex is longer than " + std::to_string(kMaxRegexBytes) + " bytes";
  RE2::Options options;
  options.set_log_errors(false);
  const RE2 compiled(regex, options);
  if (cost && compiled.ok()) *cost += compiled.ProgramSize();
  if (!compiled.ok()) return "not an RE2 regex: " + compiled.error();
  if (compiled.ProgramSize() > kMaxRegexProgram)
    return "the regex is too costly (RE2 program size " + std::to_string(compiled.ProgramSize()) +
           ", at most " + std::to_string(kMaxRegexProgram) + "); use fewer or smaller repetitions";
  return std::nullopt;
}

void check_regex(const Field& field, const std::string& regex, int& cost) {
  if (cost > kMaxObjectProgram) return;
  if (auto cause = why_bad_regex(regex, &cost)) {
    field.refuse(*std::move(cause), ErrorCode::kInvalidRegex);
    cost += kMaxRegexProgram;
  }
}

Decoded<smi::HttpRouteGroup> decode_http_route_group(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::HttpRouteGroup group{{object.key.ns, object.key.name}, {}};
  const Field spec = reader.root()["spec"];
  if (spec.required_map({"matches"})) {
    std::set<std::string> names;
    int cost = 0;
    for (const Field& field : spec["matches"].required().list()) {
      smi::HttpMatch match = match_of(field, cost);
      if (!match.name.empty() && !names.insert(match.name).second)
        field["name"].refuse("two matches have this name");
      group.matches.push_back(std::move(match));
    }
    if (cost > kMaxObjectProgram)
      spec["matches"].refuse("the expressions together are too costly (RE2 program size above " +
                                 std::to_string(kMaxObjectProgram) +
                                 "); simplify them, or split the HTTPRouteGroup",
                             ErrorCode::kInvalidRegex);
  }
  return std::move(reader).finish(std::move(group));
}

Decoded<smi::TcpRoute> decode_tcp_route(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::TcpRoute route{{object.key.ns, object.key.name}, {}};
  const Field spec = reader.root()["spec"];
  const Field matches = spec["matches"];
  if (spec.optional_map({"matches"}) && matches.optional_map({"name", "ports"})) {
    matches["name"].text();  // SMI has it; nothing refers to it
    route.ports = matches["ports"].ports();
  }
  return std::move(reader).finish(std::move(route));
}

Decoded<smi::TrafficTarget> decode_traffic_target(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::TrafficTarget target;
  target.name = {object.key.ns, object.key.name};
  const Field spec = reader.root()["spec"];
  if (spec.required_map({"destination", "sources", "rules"})) {
    target.destination = destination_of(spec["destination"], object.key.ns);
    std::set<ServiceAccount> sources;
    for (const Field& field : spec["sources"].required().list()) sources.insert(account_of(field));
    target.sources.assign(sources.begin(), sources.end());
    const auto rules = spec["rules"].required().list();
    for (const Field& field : rules) target.rules.push_back(rule_of(field));
    if (spec["rules"].present() && rules.empty())
      spec["rules"].refuse("must name at least one HTTPRouteGroup or TCPRoute");
    std::size_t matches = 0;
    for (const smi::TrafficTargetRule& rule : target.rules) matches += rule.matches.size();
    if (matches > kMaxTargetMatches)
      spec["rules"].refuse("name " + std::to_string(matches) + " matches, at most " +
                               std::to_string(kMaxTargetMatches) + "; split the TrafficTarget",
                           ErrorCode::kTooLarge);
  }
  return std::move(reader).finish(std::move(target));
}

}  // namespace osm::inline v1::spec
