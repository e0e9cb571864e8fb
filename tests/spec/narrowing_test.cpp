// An object with one more bad element never grants more. Random edits of a valid TrafficTarget and
// of the routes that it names; this file computes the grants by itself, from the decoded values.
#include <doctest/doctest.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <boost/json.hpp>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/run.hpp"
#include "spec/decode.hpp"

using namespace osm;
using namespace osm::spec;

namespace json = boost::json;

namespace {

using Rng = std::mt19937_64;

std::size_t below(Rng& rng, std::size_t count) { return rng() % count; }
bool coin(Rng& rng) { return below(rng, 2) == 0; }

// ---- calls, and the calls that objects grant

struct Request {
  std::string method, path;
  std::map<std::string, std::string> headers;
};

const std::vector<ServiceAccount> kCallers{{"a", "client"}, {"a", "other"}, {"b", "x"}};
const std::vector<Port> kPorts{Port{22}, Port{80}, Port{5432}};

std::vector<Request> all_requests() {
  std::vector<Request> out;
  for (const char* method : {"GET", "HEAD", "POST"})
    for (const char* path : {"/books/1", "/buy", "/audit", "/x"})
      for (const bool tenant : {false, true})
        for (const bool agent : {false, true}) {
          out.push_back({method, path, {}});
          if (tenant) out.back().headers["x-tenant"] = "abc";
          if (agent) out.back().headers["user-agent"] = "curl/8";
        }
  return out;
}
const std::vector<Request> kRequests = all_requests();

constexpr std::size_t kCalls = 3 * 3 * (48 + 1);  // caller, port, request; the last one: TCP
using Grants = std::bitset<kCalls>;

bool full_match(const std::string& regex, const std::string& text) {
  static std::map<std::string, std::unique_ptr<RE2>> compiled;
  auto& entry = compiled[regex];
  if (!entry) {
    entry = std::make_unique<RE2>(regex);
    REQUIRE(entry->ok());
  }
  return RE2::FullMatch(text, *entry);
}

bool allows(const smi::HttpMatch& match, const Request& request) {
  const auto& methods = match.methods;
  return full_match(match.path_regex, request.path) &&
         (methods.empty() ||
          std::find(methods.begin(), methods.end(), request.method) != methods.end()) &&
         std::all_of(match.headers.begin(), match.headers.end(), [&](const auto& header) {
           const auto at = request.headers.find(header.first);
           return at != request.headers.end() && full_match(header.second, at->second);
         });
}

// ---- objects

struct Objects {
  json::value target, books, more, route;

  std::array<json::value*, 4> all() { return {&target, &books, &more, &route}; }
};

Object object_of(const GroupKind& kind, const char* name, const json::value& spec) {
  Object object;
  object.key = {kind, "b", name};
  object.api_version = find_kind(mesh_kinds(), kind)->api_version();
  object.document = std::make_shared<const json::value>(json::object{{"spec", spec}});
  return object;
}

struct Outcome {
  Grants grants{};
  bool refusals = false;  // something is left out
  bool element = false;   // and the objects are there
};

template <class T>
std::optional<T> taken(Decoded<T> decoded, Outcome& outcome) {
  for (const Problem& problem : decoded.problems)
    outcome.refusals |= problem.code != ErrorCode::kUnusedField;
  outcome.element &= decoded.value.has_value();
  return std::move(decoded.value);
}

// A TCPRoute opens its ports, and bounds the HTTP rules beside it. A target without its TCPRoute
// grants nothing.
Outcome outcome_of(const Objects& objects) {
  Outcome out{.element = true};
  std::map<std::string, std::optional<smi::HttpRouteGroup>> groups;
  groups["books"] = taken(
      decode_http_route_group(object_of(kinds::kHttpRouteGroup, "books", objects.books)), out);
  groups["more"] =
      taken(decode_http_route_group(object_of(kinds::kHttpRouteGroup, "more", objects.more)), out);
  const auto route = taken(decode_tcp_route(object_of(kinds::kTcpRoute, "db", objects.route)), out);
  const auto target =
      taken(decode_traffic_target(object_of(kinds::kTrafficTarget, "it", objects.target)), out);
  if (!target) return out;

  bool tcp = false;
  std::set<Port> ports;
  std::vector<smi::HttpMatch> matches;
  for (const smi::TrafficTargetRule& rule : target->rules) {
    if (rule.kind == smi::RouteKind::kTcpRoute) {
      if (rule.name != "db" || !route) return out;
      tcp = true;
      ports.insert(route->ports.begin(), route->ports.end());
      if (route->ports.empty()) ports.insert(kPorts.begin(), kPorts.end());
      continue;
    }
    const auto& group = groups[rule.name];
    for (const std::string& name : rule.matches)
      if (group)
        for (const smi::HttpMatch& match : group->matches)
          if (match.name == name) matches.push_back(match);
  }
  std::vector<bool> allowed;
  for (const Request& request : kRequests)
    allowed.push_back(std::any_of(matches.begin(), matches.end(),
                                  [&](const auto& match) { return allows(match, request); }));
  std::size_t call = 0;
  for (const ServiceAccount& caller : kCallers) {
    const bool named =
        std::find(target->sources.begin(), target->sources.end(), caller) != target->sources.end();
    for (const Port port : kPorts) {
      const bool reached = named && (!tcp || ports.contains(port));
      for (const bool request : allowed) out.grants[call++] = reached && request;
      out.grants[call++] = reached && tcp;
    }
  }
  REQUIRE(call == kCalls);
  return out;
}

Objects valid_objects(Rng& rng) {
  Objects out;
  json::array books{json::parse(R"({"name": "read", "methods": ["GET", "HEAD"],
    "pathRegex": "/books/.*", "headers": [{"user-agent": "curl.*"}, {"x-tenant": "[a-z]+"}]})"),
                    json::parse(R"({"name": "buy", "methods": ["POST"], "pathRegex": "/buy"})"),
                    json::parse(R"({"name": "any", "headers": {"x-tenant": "a.*"}})")};
  std::rotate(books.begin(), books.begin() + below(rng, 3), books.end());
  out.books = json::object{{"matches", books}};
  out.more = json::parse(R"({"matches": [{"name": "audit", "pathRegex": "/audit",
                                          "methods": ["GET"]}, {"name": "all", "methods": ["*"]}]})");
  out.route = coin(rng) ? json::parse(R"({"matches": {"name": "x", "ports": [22, 5432]}})")
                        : json::parse(R"({"matches": {"ports": [80]}})");
  json::array rules{json::parse(R"({"kind": "HTTPRouteGroup", "name": "books",
                                    "matches": ["read", "buy"]})")};
  if (coin(rng))
    rules.push_back(
        json::parse(R"({"kind": "HTTPRouteGroup", "name": "more", "matches": ["audit"]})"));
  if (coin(rng))
    rules.insert(rules.begin() + below(rng, rules.size() + 1),
                 json::parse(R"({"kind": "TCPRoute", "name": "db"})"));
  out.target = json::object{
      {"destination", json::parse(R"({"kind": "ServiceAccount", "name": "s", "namespace": "b"})")},
      {"sources", json::parse(R"([{"kind": "ServiceAccount", "name": "client", "namespace": "a"},
                                  {"kind": "ServiceAccount", "name": "other", "namespace": "a"}])")},
      {"rules", rules}};
  return out;
}

// ---- edits of one place

json::value some_value(Rng& rng) {
  static const json::array kValues = json::parse(R"json(
      ["", "(", "(?!x)", "a b", "a.b", "x", "client", "read", "buy", "any", "audit", "db", "books",
       "more", "GET", "FETCH", "*", ".*", "HTTPRouteGroup", "TCPRoute", "TcpRoute",
       "ServiceAccount", 0, 22, 80, 70000, -1, 1.5, true, null, [], {}, [7], ["*"], {"a": "("},
       {"name": "read"}, {"name": "buy", "pathRegex": ".*"}])json")
                                         .as_array();
  return kValues.at(below(rng, kValues.size()));
}

void collect(json::value& value, std::vector<json::value*>& nodes) {
  nodes.push_back(&value);
  if (auto* list = value.if_array())
    for (json::value& item : *list) collect(item, nodes);
  if (auto* map = value.if_object())
    for (auto& member : *map) collect(member.value(), nodes);
}

json::value& some_node(json::value& value, Rng& rng) {
  std::vector<json::value*> nodes;
  collect(value, nodes);
  return *nodes[below(rng, nodes.size())];
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// Replaces a value; or adds an element to a list, a copy with another value in it among them; or
// adds a field to a map, one of its own in capitals among them.
void edit(Objects& objects, Rng& rng) {
  json::value& node = some_node(*objects.all()[below(rng, 4)], rng);
  auto* list = node.if_array();
  auto* map = node.if_object();
  if (list != nullptr && !list->empty() && coin(rng)) {
    json::value added = coin(rng) ? some_value(rng) : list->at(below(rng, list->size()));
    if (coin(rng)) some_node(added, rng) = some_value(rng);
    list->insert(list->begin() + below(rng, list->size() + 1), std::move(added));
  } else if (map != nullptr && !map->empty() && coin(rng)) {
    const auto own = map->begin() + below(rng, map->size());
    const std::string key = coin(rng) ? upper(own->key()) : "unknown";
    (*map)[key] = some_value(rng);
  } else {
    node = some_value(rng);
  }
}

}  // namespace

TEST_SUITE("spec::decode of random edits") {
  TEST_CASE("an object with one more bad element never grants more") {
    Rng rng = osm::testing::seeded();
    int elements = 0;
    int narrower = 0;
    for (int step = 0; step < osm::testing::steps(2'000, 100'000); ++step) {
      Objects objects = valid_objects(rng);
      const Outcome before = outcome_of(objects);
      REQUIRE_FALSE(before.refusals);
      REQUIRE(before.grants.any());
      edit(objects, rng);
      const Outcome after = outcome_of(objects);
      if (!after.refusals) continue;  // a valid edit may grant more
      CAPTURE(json::serialize(objects.target));
      CAPTURE(json::serialize(objects.books));
      CAPTURE(json::serialize(objects.more));
      CAPTURE(json::serialize(objects.route));
      REQUIRE((after.grants & ~before.grants).none());
      elements += after.element;
      narrower += after.element && after.grants.any() && after.grants != before.grants;
    }
    CHECK(elements > 0);
    CHECK(narrower > 0);
  }
}
