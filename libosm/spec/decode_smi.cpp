// TrafficTarget and the routes it names. https://github.com/servicemeshinterface/smi-spec
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "base/json.hpp"
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

std::string method_of(const Field& field) {
  std::string method =
      mapped(field.required_text(), [](unsigned char c) { return std::toupper(c); });
  if (!method.empty() && method != "*" &&
      std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end())
    field.refuse(
        "not an HTTP method; use GET, HEAD, POST, PUT, PATCH, DELETE, CONNECT, OPTIONS, TRACE or "
        "*");
  return method;
}

// The valid elements of a list. An empty list means any, so a list is refused if none is left.
template <class Read>
auto some_of(const Field& field, std::string_view what, Read read)
    -> std::vector<std::invoke_result_t<Read, const Field&>> {
  const std::vector<Field> items = field.list();
  std::vector<std::invoke_result_t<Read, const Field&>> out;
  for (const Field& item : items)
    if (auto value = item.element(what, read)) out.push_back(*std::move(value));
  if (out.empty() && !items.empty())
    field.refuse("has no valid " + std::string(what) + ", and an empty list would allow any");
  return out;
}

std::vector<std::string> methods_of(const Field& field) {
  std::vector<std::string> methods = some_of(field, "method", method_of);
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  if (std::binary_search(methods.begin(), methods.end(), "*")) methods.clear();
  return methods;
}

void add_headers(const Field& map, std::map<std::string, std::string>& headers, int& cost) {
  for (const auto& [key, field] : map.members()) {
    const std::string name = mapped(key, [](unsigned char c) { return std::tolower(c); });
    if (!is_header_name(name)) field.refuse("not an HTTP header name");
    const std::string regex = field.required_text();
    check_regex(field, regex, cost);
    const auto [at, first] = headers.try_emplace(name, regex);
    if (!first && at->second != regex) field.refuse("the header is given twice, with two values");
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
  const auto [map, name, path, methods, headers] =
      field.required_map("name", "pathRegex", "methods", "headers");
  if (!map) return match;
  match.name = name.required_text();
  if (auto regex = path.text(); regex && !regex->empty()) {
    match.path_regex = *std::move(regex);
    check_regex(path, match.path_regex, cost);
  }
  match.methods = methods_of(methods);
  match.headers = headers_of(headers, cost);
  return match;
}

// The valid matches of a group. Leaving one out narrows: rules allow nothing by its name.
std::vector<smi::HttpMatch> matches_of(const Field& field, int& cost) {
  const std::vector<Field> items = field.required().list();
  std::vector<std::optional<smi::HttpMatch>> matches;
  std::map<std::string, std::vector<std::size_t>> places;
  for (const Field& item : items) {
    if (const std::string name = text_at(*item.value(), "name"); !name.empty())
      places[name].push_back(matches.size());
    matches.push_back(
        item.element("match", [&](const Field& each) { return match_of(each, cost); }));
  }
  // A name that several different matches claim belongs to none: OSM v1.2 took the last one, so
  // that the first might allow what it did not.
  for (const auto& [name, claims] : places) {
    if (claims.size() == 1) continue;
    const auto& first = matches[claims.front()];
    const bool equal = first && std::all_of(claims.begin(), claims.end(),
                                            [&](std::size_t at) { return matches[at] == first; });
    for (std::size_t i = equal ? 1 : 0; i < claims.size(); ++i) {
      items[claims[i]]["name"].leave_out(
          "match", equal
                       ? "two matches have this name and are equal; remove one"
                       : "two matches have this name and differ, so it means neither; rename one");
      matches[claims[i]].reset();
    }
  }
  std::vector<smi::HttpMatch> out;
  for (auto& match : matches)
    if (match) out.push_back(*std::move(match));
  return out;
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
  const auto [map, kind, name, matches] = field.required_map("kind", "name", "matches");
  if (!map) return rule;
  const std::string word = kind.required_text();
  rule.name = required_subdomain(name);
  if (word == kinds::kTcpRoute.kind) {
    rule.kind = smi::RouteKind::kTcpRoute;
    if (matches.present()) matches.note("a TCPRoute rule has no matches; they have no effect");
    return rule;
  }
  if (!word.empty() && word != kinds::kHttpRouteGroup.kind)
    kind.refuse("must be HTTPRouteGroup or TCPRoute");
  std::set<std::string> seen;
  const auto text = [](const Field& match) { return match.required_text(); };
  for (std::string& match : matches.elements("name", text))
    if (seen.insert(match).second) rule.matches.push_back(std::move(match));
  if (word == kinds::kHttpRouteGroup.kind && rule.matches.empty())
    field.note("names no matches of the HTTPRouteGroup, so it allows no HTTP request");
  return rule;
}

std::vector<smi::TrafficTargetRule> rules_of(const std::vector<Field>& fields) {
  std::vector<smi::TrafficTargetRule> rules;
  for (std::size_t place = 0; place < fields.size(); ++place) {
    const Field& field = fields[place];
    // Leaving out a rule of HTTP narrows. A TCPRoute bounds the rules of HTTP beside it, so a bad
    // rule that is one, or may be meant as one, is not left out alone.
    if (text_at(*field.value(), "kind") != kinds::kHttpRouteGroup.kind) {
      rules.push_back(rule_of(field));
    } else if (auto rule = field.element("rule", rule_of)) {
      rules.push_back(*std::move(rule));
    } else {
      continue;
    }
    rules.back().place = place;
  }
  return rules;
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
  if (const auto [map, matches] = reader.root()["spec"].required_map("matches"); map) {
    int cost = 0;
    group.matches = matches_of(matches, cost);
    if (cost > kMaxObjectProgram)
      matches.refuse("the expressions together are too costly (RE2 program size above " +
                         std::to_string(kMaxObjectProgram) +
                         "); simplify them, or split the HTTPRouteGroup",
                     ErrorCode::kInvalidRegex);
  }
  return std::move(reader).finish(std::move(group));
}

Decoded<smi::TcpRoute> decode_tcp_route(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::TcpRoute route{{object.key.ns, object.key.name}, {}};
  const auto [map, matches] = reader.root()["spec"].optional_map("matches");
  const auto [is_map, name, ports] = matches.optional_map("name", "ports");
  name.text();  // SMI has it; nothing refers to it
  const auto port = [](const Field& field) { return field.listed_port().value_or(Port{}); };
  const std::vector<Port> listed = some_of(ports, "port", port);
  const std::set<Port> ordered(listed.begin(), listed.end());
  route.ports.assign(ordered.begin(), ordered.end());
  return std::move(reader).finish(std::move(route));
}

Decoded<smi::TrafficTarget> decode_traffic_target(const Object& object) {
  ObjectReader reader(object, NameRule::kSubdomain);
  smi::TrafficTarget target;
  target.name = {object.key.ns, object.key.name};
  const auto [map, destination, sources, rules] =
      reader.root()["spec"].required_map("destination", "sources", "rules");
  if (map) {
    target.destination = destination_of(destination, object.key.ns);
    const auto listed = sources.required().elements("source", account_of);
    const std::set<ServiceAccount> ordered(listed.begin(), listed.end());
    target.sources.assign(ordered.begin(), ordered.end());
    const auto items = rules.required().list();
    target.rules = rules_of(items);
    if (rules.present() && items.empty())
      rules.refuse("must name at least one HTTPRouteGroup or TCPRoute");
    std::size_t matches = 0;
    for (const smi::TrafficTargetRule& rule : target.rules) matches += rule.matches.size();
    if (matches > kMaxTargetMatches)
      rules.refuse("name " + std::to_string(matches) + " matches, at most " +
                       std::to_string(kMaxTargetMatches) + "; split the TrafficTarget",
                   ErrorCode::kTooLarge);
  }
  return std::move(reader).finish(std::move(target));
}

}  // namespace osm::inline v1::spec
