// A bad element is left out alone where that narrows what the object allows, and its problem says
// so.
#include <doctest/doctest.h>

#include <algorithm>

#include "osm/spec/object_mesh_spec.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "spec/decode.hpp"
#include "spec/decode_cases.hpp"

using namespace osm;
using namespace osm::spec;

namespace {

constexpr auto kRegex = ErrorCode::kInvalidRegex;

const std::string kDestination =
    "destination: {kind: ServiceAccount, name: books, namespace: shop}\n";
const std::string kSources = "sources: [{kind: ServiceAccount, name: a, namespace: b}]\n";
const std::string kRules = "rules: [{kind: HTTPRouteGroup, name: r, matches: [m]}]\n";

template <class T>
std::vector<std::string> fields_of(const Decoded<T>& decoded) {
  std::vector<std::string> fields;
  for (const Problem& problem : decoded.problems) fields.push_back(problem.field);
  return fields;
}

// True if the text of each problem says that only this element is left out; empty: that none does.
template <class T>
bool told_of_only(const std::string& element, const Decoded<T>& decoded) {
  const std::string said = "; only this " + element + " is left out of a stored object [";
  return std::all_of(decoded.problems.begin(), decoded.problems.end(), [&](const auto& problem) {
    const bool only = problem.text().find("; only this ") != std::string::npos;
    return element.empty() ? !only : problem.text().find(said) != std::string::npos;
  });
}

Decoded<smi::HttpRouteGroup> group(const std::string& spec) {
  return decode_http_route_group(object_of(kSpecsApi, "HTTPRouteGroup", spec));
}
Decoded<smi::TcpRoute> tcp_route(const std::string& spec) {
  return decode_tcp_route(object_of(kSpecsApi, "TCPRoute", spec));
}
Decoded<smi::TrafficTarget> target(const std::string& spec) {
  return decode_traffic_target(object_of(kTargetApi, "TrafficTarget", spec));
}

std::vector<std::string> names_of(const Decoded<smi::HttpRouteGroup>& decoded) {
  REQUIRE(decoded.value);
  std::vector<std::string> names;
  for (const smi::HttpMatch& match : decoded.value->matches) names.push_back(match.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE("spec::decode of a bad element") {
  TEST_CASE("a bad match of an HTTPRouteGroup is left out, and the others stay") {
    struct Row {
      std::string match;
      std::string field;  // in the match
      ErrorCode code = kField;
    };
    for (const Row& row : {
             Row{"- pathRegex: /", ".name"},
             Row{"- name: ''", ".name"},
             Row{"- name: 7", ".name"},
             Row{"- a", ""},
             Row{"- {name: bad, pathRegx: /x}", ".pathRegx"},
             Row{"- {name: bad, pathRegex: 7}", ".pathRegex"},
             Row{"- {name: bad, pathRegex: '/(a'}", ".pathRegex", kRegex},
             Row{"- {name: bad, pathRegex: '(?!x)'}", ".pathRegex", kRegex},
             Row{"- {name: bad, pathRegex: " + std::string(1025, 'x') + "}", ".pathRegex", kRegex},
             Row{"- {name: bad, pathRegex: '(a{30}){30}(b{30}){30}'}", ".pathRegex", kRegex},
             Row{"- {name: bad, methods: GET}", ".methods"},
             Row{"- {name: bad, headers: [x]}", ".headers[0]"},
             Row{"- {name: bad, headers: [{a b: c}]}", ".headers[0].a b"},
             Row{"- {name: bad, headers: [{a: '['}]}", ".headers[0].a", kRegex},
             Row{"- {name: bad, headers: {a: 7}}", ".headers.a"},
             Row{"- {name: bad, headers: [{a: x}, {A: y}]}", ".headers[1].A"},
         }) {
      CAPTURE(row.match);
      const auto decoded = group("matches:\n- {name: first, pathRegex: /a}\n" + row.match +
                                 "\n- {name: last, pathRegex: /b}");
      CHECK(names_of(decoded) == Names{"first", "last"});
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].field == "spec.matches[1]" + row.field);
      CHECK(decoded.problems[0].code == row.code);
      CHECK(told_of_only("match", decoded));
    }
  }

  TEST_CASE("a bad method is left out, unless none stays: no method would mean any") {
    const auto some = group("matches: [{name: a, methods: [GET, FETCH, '', 7]}]");
    REQUIRE(some.value);
    CHECK(some.value->matches.at(0).methods == Names{"GET"});
    CHECK(some.problems.size() == 3);
    CHECK(told_of_only("method", some));
    const auto none = group("matches: [{name: a, methods: [FETCH]}, {name: b}]");
    CHECK(names_of(none) == Names{"b"});
    CHECK(fields_of(none) == Names{"spec.matches[0].methods[0]", "spec.matches[0].methods"});
    CHECK(told_of_only("match", none));
    const auto any = group("matches: [{name: a, methods: ['*', FETCH]}]");
    REQUIRE(any.value);
    CHECK(any.value->matches.at(0).methods.empty());
  }

  TEST_CASE("a header that is given twice with one value is given once") {
    const auto decoded = good(group("matches: [{name: a, headers: [{a: x}, {A: x}]}]"));
    CHECK(decoded.matches.at(0).headers == std::map<std::string, std::string>{{"a", "x"}});
  }

  // OSM v1.2 took the last one; taking the first would allow what it did not.
  TEST_CASE("a name that several different matches claim belongs to none of them") {
    const auto decoded = group(
        "matches: [{name: a, pathRegex: /x}, {name: b}, {name: a, pathRegex: /y}, {name: a}]");
    CHECK(names_of(decoded) == Names{"b"});
    CHECK(fields_of(decoded) ==
          Names{"spec.matches[0].name", "spec.matches[2].name", "spec.matches[3].name"});
    CHECK(told_of_only("match", decoded));
    const auto bad =
        group("matches: [{name: a, pathRegex: /x}, {name: a, pathRegex: '('}, {name: b}]");
    CHECK(names_of(bad) == Names{"b"});
    const auto equal = group("matches: [{name: a, methods: [GET]}, {name: a, methods: [get]}]");
    CHECK(names_of(equal) == Names{"a"});
    CHECK(fields_of(equal) == Names{"spec.matches[1].name"});
  }

  TEST_CASE("a group whose matches are all bad allows nothing, and is there") {
    const auto decoded = group("matches: [{name: a, pathRegex: '('}]");
    CHECK(names_of(decoded).empty());
    CHECK(told_of_only("match", decoded));
  }

  TEST_CASE("a bad port of a TCPRoute is left out, unless none stays: no port would mean any") {
    const auto some = tcp_route("matches: {ports: [22, x, 70000, null]}");
    REQUIRE(some.value);
    CHECK(some.value->ports == std::vector{Port{22}});
    CHECK(fields_of(some) ==
          Names{"spec.matches.ports[1]", "spec.matches.ports[2]", "spec.matches.ports[3]"});
    CHECK(told_of_only("port", some));
    const auto none = tcp_route("matches: {ports: [0]}");
    CHECK_FALSE(none.value);
    CHECK(fields_of(none) == Names{"spec.matches.ports[0]", "spec.matches.ports"});
    CHECK(told_of_only("", none));
  }

  TEST_CASE("a bad source of a TrafficTarget is left out, and the others stay") {
    struct Row {
      std::string source;
      std::string field;  // in the source
      std::string cause;
    };
    for (const Row& row : {
             Row{"- {kind: ServiceAccount, name: a}", ".namespace", "required"},
             Row{"- {kind: ServiceAccount, name: a, namespace: ''}", ".namespace", "empty"},
             Row{"- {kind: Group, name: a, namespace: b}", ".kind", "must be ServiceAccount"},
             Row{"- {kind: ServiceAccount, name: '*', namespace: b}", ".name", "DNS label"},
             Row{"- {kind: ServiceAccount, name: a.b, namespace: b}", ".name",
                 "whose name has a dot cannot be an identity"},
             Row{"- {kind: ServiceAccount, name: a, namespace: b, nme: c}", ".nme", "no such"},
             Row{"- a", "", "must be a map"},
         }) {
      CAPTURE(row.source);
      const auto decoded =
          target(kDestination + kRules +
                 "sources:\n- {kind: ServiceAccount, name: x, namespace: y}\n" + row.source);
      REQUIRE(decoded.value);
      CHECK(decoded.value->sources == std::vector<ServiceAccount>{{"y", "x"}});
      REQUIRE(decoded.problems.size() == 1);
      CHECK(decoded.problems[0].field == "spec.sources[1]" + row.field);
      CHECK(decoded.problems[0].cause.find(row.cause) != std::string::npos);
      CHECK(told_of_only("source", decoded));
    }
    const auto none = target(kDestination + kRules + "sources: [a]");
    REQUIRE(none.value);
    CHECK(none.value->sources.empty());
  }

  TEST_CASE("a bad HTTP rule of a TrafficTarget is left out, and the others stay") {
    struct Row {
      std::string rule;
      std::string field;  // in the rule
    };
    for (const Row& row : {
             Row{"- {kind: HTTPRouteGroup, matches: [m]}", ".name"},
             Row{"- {kind: HTTPRouteGroup, name: A B, matches: [m]}", ".name"},
             Row{"- {kind: HTTPRouteGroup, name: r, matchs: [m]}", ".matchs"},
             Row{"- {kind: HTTPRouteGroup, name: r, matches: m}", ".matches"},
         }) {
      CAPTURE(row.rule);
      const auto decoded =
          target(kDestination + kSources + "rules:\n" + row.rule +
                 "\n- {kind: TCPRoute, name: t}\n- {kind: HTTPRouteGroup, name: s, matches: [n]}");
      REQUIRE(decoded.value);
      CHECK(decoded.value->rules ==
            std::vector<smi::TrafficTargetRule>{{smi::RouteKind::kTcpRoute, "t", {}, 1},
                                                {smi::RouteKind::kHttpRouteGroup, "s", {"n"}, 2}});
      REQUIRE_FALSE(decoded.problems.empty());
      CHECK(decoded.problems[0].field == "spec.rules[0]" + row.field);
      CHECK(decoded.problems[0].text().find("; only this rule is left out of ") !=
            std::string::npos);
    }
    const auto name = target(kDestination + kSources +
                             "rules: [{kind: HTTPRouteGroup, name: r, matches: [m, 7]}]");
    REQUIRE(name.value);
    CHECK(name.value->rules.at(0).matches == Names{"m"});
    CHECK(fields_of(name) == Names{"spec.rules[0].matches[1]"});
    CHECK(told_of_only("name", name));
  }

  // A TCPRoute bounds the HTTP rules beside it, so a target without it would allow more.
  TEST_CASE("a bad rule that is a TCPRoute, or may be one, takes the TrafficTarget with it") {
    for (const char* rule :
         {"{kind: TCPRoute}", "{kind: TCPRoute, name: A B}", "{kind: TCPRoute, name: t, prts: [1]}",
          "{kind: TcpRoute, name: t}", "{name: t}", "{kind: 7, name: t}", "t"}) {
      CAPTURE(rule);
      const auto decoded =
          target(kDestination + kSources +
                 "rules:\n- {kind: HTTPRouteGroup, name: r, matches: [m]}\n- " + rule);
      CHECK_FALSE(decoded.value);
      CHECK(told_of_only("", decoded));
    }
  }

  TEST_CASE("a bad destination takes the TrafficTarget with it, and its bad elements are named") {
    const auto decoded = target(
        "destination: {kind: ServiceAccount, name: a.b, namespace: shop}\nsources: [a]\n" + kRules);
    CHECK_FALSE(decoded.value);
    CHECK(fields_of(decoded) == Names{"spec.destination.name", "spec.sources[0]"});
    CHECK(decoded.problems[0].cause.find("whose name has a dot cannot be an identity") !=
          std::string::npos);
    CHECK(told_of_only("", decoded));
  }

  TEST_CASE("a list that is too long takes the object with it, at any depth") {
    std::string many;
    for (int i = 0; i < 1025; ++i) many += "GET, ";
    const auto decoded = group("matches: [{name: a, methods: [" + many + "]}, {name: b}]");
    CHECK_FALSE(decoded.value);
    REQUIRE(decoded.problems.size() == 1);
    CHECK(decoded.problems[0].code == ErrorCode::kTooLarge);
    CHECK(told_of_only("", decoded));
  }

  TEST_CASE("expressions that are too costly together take the group with them") {
    std::string matches = "matches:\n";
    for (int i = 0; i < 60; ++i)
      matches += "- {name: m" + std::to_string(i) + ", pathRegex: '('}\n";
    CHECK_FALSE(group(matches + "- {name: last}").value);
  }

  TEST_CASE("a bad element of a Denylist says that only it is left out") {
    const DecodedPolicy decoded = decode_denylist(object_of(
        "workload.openservicemesh.io/v1alpha1", "Denylist",
        "serviceAccounts: [{namespace: shop, name: web}, web]\nproxyUUIDs: [x]\nreason: 7"));
    REQUIRE(decoded.value);
    REQUIRE(decoded.problems.size() == 3);
    for (const Problem& problem : decoded.problems)
      CHECK(problem.text().find("; only this ") != std::string::npos);
  }

  TEST_CASE("an element after one that is left out is reported under its own place") {
    osm::testing::MemoryObjectStore store;
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    const std::string text =
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: "
        "{openservicemesh.io/monitored-by: osm}}\n---\napiVersion: v1\nkind: Service\nmetadata: "
        "{name: books, namespace: shop}\nspec: {clusterIP: 10.0.0.1, selector: {app: "
        "books}}\n---\napiVersion: " +
        kSplitApi + "\nkind: TrafficSplit\nmetadata: {name: it, namespace: shop}\nspec:\n" +
        indented(
            "service: books\nbackends: [{service: v_1, weight: 1}, {service: gone, weight: 1}]") +
        "\n---\napiVersion: " + kTargetApi +
        "\nkind: TrafficTarget\nmetadata: {name: it, namespace: shop}\nspec:\n" +
        indented(kDestination + kSources +
                 "rules: [{kind: HTTPRouteGroup, name: A}, {kind: HTTPRouteGroup, name: gone, "
                 "matches: m}, {kind: HTTPRouteGroup, name: gone, matches: [m]}]");
    REQUIRE(store.put_yaml(text, "mesh/a.yaml").ok());
    const auto spec = make_mesh_spec({.store = store, .log = log, .metrics = metrics});
    std::vector<std::string> fields;
    for (const Problem& problem : spec->list_problems())
      if (problem.code != ErrorCode::kUnusedField) fields.push_back(problem.field);
    std::sort(fields.begin(), fields.end());
    CHECK(fields == Names{"spec.backends[0].service", "spec.backends[1].service",
                          "spec.rules[0].name", "spec.rules[1].matches", "spec.rules[2].name"});
    CHECK(spec->list_traffic_targets().size() == 1);
  }
}
