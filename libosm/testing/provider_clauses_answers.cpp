// Clauses about the content of an answer: unknown or empty services, identities, optional fields,
// merging and names.
#include <algorithm>
#include <random>

#include "testing/provider_bench.hpp"

namespace osm::inline v1::testing {
namespace {

const ServiceName kMarker{kShop, "marker"};

// Waits until all earlier changes of the platform have reached the provider.
bool news_arrived(Bench& bench, std::size_t turn) {
  return bench.put(kMarker, {endpoint_at(5000 + turn)});
}

Verdict zero_is_not_gone(Bench& bench) {
  if (!bench.start_ready({kBooks, kMusic})) return not_judged("synced");
  const std::string rule =
      "a service that the platform does not have is unknown (nullopt), one that it has without "
      "endpoints is known (an empty list)";
  const auto state = [&](const ServiceName& service) {
    return service.str() + " is " + bench.watch().ask(service).text() + " to the provider and " +
           text_of(bench.served(service)) + " in the mesh";
  };
  bench.step("asking for a service that is not there");
  if (!bench.watch().ask(kMusic).is(std::nullopt) || !bench.serves(kMusic, std::nullopt))
    return failed(rule, "never on the platform: " + state(kMusic));
  if (!bench.put(kBooks, {endpoint_at(1)})) return not_judged("events");
  if (bench.traits().knows_empty) {
    bench.step("taking a service's last endpoint");
    if (!bench.put(kBooks, {}) || !bench.serves(kBooks, Known(std::in_place)))
      return failed(rule, "without endpoints: " + state(kBooks));
  }
  bench.step("removing a service");
  bench.platform().remove_service(kBooks);
  if (!bench.lists(kBooks, std::nullopt) || !bench.serves(kBooks, std::nullopt))
    return failed(rule, "removed: " + state(kBooks));
  return passed(bench.traits().knows_empty ? "unknown, empty and removed are told apart"
                                           : "unknown and removed; the platform knows no empty");
}

Verdict identity(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  std::vector<Endpoint> endpoints{endpoint_at(1, "books"), endpoint_at(2, "archive")};
  for (int turn = 0; turn < 2; ++turn) {
    bench.step(turn == 0 ? "listing two accounts" : "exchanging their addresses");
    if (!bench.put(kBooks, endpoints) || !bench.serves(kBooks, Known(endpoints)))
      return failed(
          "as whom an endpoint runs comes from the platform with the endpoint, every time: never "
          "from its address or from what was there before",
          instead_of(endpoints, bench.watch().ask(kBooks).text()));
    std::swap(endpoints[0].identity, endpoints[1].identity);
  }
  return passed("two accounts, which then exchanged their addresses");
}

// Endpoints with identities that they cannot have.
std::vector<Endpoint> impostors() {
  std::vector<Endpoint> out;
  for (const ServiceIdentity& claim : {ServiceIdentity{"elsewhere", "books"},
                                       {kShop, ""},
                                       {kShop, "Books"},
                                       {kShop, "../root"},
                                       {kShop, "spiffe://other.domain/ns/shop/sa/books"},
                                       {"", "books"},
                                       {"shop/sa", "books"}}) {
    out.push_back(endpoint_at(700 + out.size()));
    out.back().identity = claim;
  }
  return out;
}

Verdict spoofed_identity(Bench& bench) {
  const std::vector<Endpoint> honest{endpoint_at(1)};
  if (!bench.start_ready({kBooks, kMarker})) return not_judged("synced");
  if (!bench.put(kBooks, honest) || !bench.serves(kBooks, Known(honest)))
    return not_judged("events");
  const std::string rule =
      "an endpoint whose account is of another namespace than its service, or is no account, must "
      "not be served: it is listed as the platform has it, or left out, never under a name made to "
      "fit";
  std::size_t turn = 0;
  for (const Endpoint& impostor : impostors()) {
    bench.step("claiming the identity '" + impostor.identity.str() + "'");
    bench.platform().set_endpoints(kBooks, {honest.front(), impostor});
    if (!news_arrived(bench, turn++)) return not_judged("events");
    bench.watch().announce({kBooks});
    bench.settle();
    const Known served = bench.served(kBooks);
    const bool there = served && std::any_of(served->begin(), served->end(), [&](const auto& one) {
                         return one.address == impostor.address;
                       });
    if (there)
      return failed(rule,
                    "who claims '" + impostor.identity.str() + "' is served: " + text_of(served));
  }

  bench.step("claiming them past the provider");
  if (!bench.put(kBooks, honest)) return not_judged("events");
  bench.watch().rewrite([](const ServiceName& service, Known& known) {
    if (service != kBooks || !known) return;
    for (const Endpoint& impostor : impostors()) known->push_back(impostor);
  });
  bench.watch().announce({kBooks});
  const bool reported = bench.wait([&] {
    return bench.problem(ErrorCode::kCrossNamespace).find(bench.watch().id()) != std::string::npos;
  });
  if (!reported || bench.served(kBooks) != Known(honest))
    return failed("the mesh must leave impostors out and report which provider listed them",
                  "it serves " + text_of(bench.served(kBooks)) + ", problem '" +
                      bench.problem(ErrorCode::kCrossNamespace) + "'");
  return passed(std::to_string(impostors().size()) +
                " claims refused: " + bench.problem(ErrorCode::kCrossNamespace));
}

Verdict optionals(Bench& bench) {
  if (!bench.start_ready({kBooks})) return not_judged("synced");
  const PlatformTraits traits = bench.traits();
  Endpoint plain = endpoint_at(1), full = endpoint_at(2), unwell = endpoint_at(3);
  Endpoint admin = endpoint_at(4);
  full.port = Port(9090);
  if (traits.zones) full.zone = "zone-b";
  if (traits.weights) full.weight = 7;
  unwell.healthy = !traits.health;
  admin.port = Port(65535);
  admin.service_port = "admin";
  const std::vector<Endpoint> all{plain, full, unwell, admin};
  const std::string rule =
      "port, service port, zone, weight and health must arrive as the platform has them, and what "
      "it does not say must be absent";
  if (!bench.put(kBooks, all))
    return failed(rule, instead_of(all, bench.watch().ask(kBooks).text()));
  Known served(all);
  std::erase_if(*served, [](const Endpoint& endpoint) { return !endpoint.healthy; });
  if (!bench.serves(kBooks, served))
    return failed(rule, instead_of(served, "the mesh serves " + text_of(bench.served(kBooks))));
  std::string told = "port, service port";
  if (traits.zones) told += ", zone";
  if (traits.weights) told += ", weight";
  if (traits.health) told += ", health";
  return passed(told);
}

// Two providers over two platforms, as two regions of one cloud.
Verdict merge(Bench& bench) {
  Party& other = bench.second();
  bench.step("starting a second instance");
  other.start(bench.runtime());
  if (!bench.start_ready({kBooks}, {&other.watch()}))
    return bench.watch().synced() && !other.watch().synced()
               ? failed("a second instance in one process must work as the first: share nothing",
                        "its has_synced() stays false")
               : not_judged("synced");
  const auto expect = [&](Known first, Known second, const Known& merged,
                          const char* what) -> std::optional<Verdict> {
    bench.step(what);
    bench.platform().set_endpoints(kBooks, *first);
    if (second) {
      other.platform().set_endpoints(kBooks, *second);
    } else {
      other.platform().remove_service(kBooks);
    }
    for (Known* known : {&first, &second}) *known = sorted(std::move(*known));
    const bool apart = bench.wait([&] {
      return bench.watch().ask(kBooks).is(first) && other.watch().ask(kBooks).is(second);
    });
    if (!apart)
      return failed("each instance must list its own platform's endpoints: share nothing",
                    std::string(what) + ": the first lists " + bench.watch().ask(kBooks).text() +
                        ", the second " + other.watch().ask(kBooks).text());
    other.watch().announce({kBooks});
    if (!bench.serves(kBooks, merged))
      return failed(
          "the mesh must serve the union, each endpoint once; where two disagree about "
          "the identity at an address, the first configured",
          instead_of(merged, std::string(what) + ": it serves " + text_of(bench.served(kBooks))));
    return std::nullopt;
  };
  const Endpoint shared = endpoint_at(1), east = endpoint_at(2), west = endpoint_at(3);
  const Endpoint mine = endpoint_at(4), theirs = endpoint_at(4, "archive");
  if (auto verdict = expect({{shared, east}}, {{shared, west}}, {{shared, east, west}}, "a union"))
    return *verdict;
  if (auto verdict = expect({{east, mine}}, {{west, theirs}}, {{east, mine, west}}, "a dispute"))
    return *verdict;
  // A platform may list the disputed endpoint later than the others: the mesh serves the union
  // before.
  std::string problem;
  const bool reported = bench.wait([&] {
    problem = bench.problem(ErrorCode::kConflictingAddress);
    return problem.find(bench.watch().id()) != std::string::npos &&
           problem.find(other.watch().id()) != std::string::npos;
  });
  if (!reported)
    return failed("the mesh must report a dispute with both providers' names",
                  "its problem is '" + problem + "'");
  if (auto verdict = expect({{east}}, std::nullopt, {{east}}, "one left alone")) return *verdict;
  return passed(problem);
}

// Names that no Service can have. Some platforms may hold them anyway.
std::vector<ServiceName> strange_names(std::uint64_t seed) {
  std::vector<ServiceName> out{{kShop, "Strange"},
                               {"SHOP", "strange"},
                               {kShop, ""},
                               {"", "strange"},
                               {kShop, "strange.shop"},
                               {kShop,
                                "b\xc3\xbc"
                                "cher"},
                               {kShop, "../strange"},
                               {kShop, "strange\n"},
                               {kShop, "-strange"},
                               {kShop, std::string(64, 's')},
                               {kShop, std::string(254, 's')},
                               {kShop, std::string(100'000, 's')},
                               {std::string(64, 'n'), "strange"}};
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 20; ++i) {
    std::string name = "?";  // never canonical
    for (std::size_t length = rng() % 40; length > 0; --length)
      name.push_back(static_cast<char>(' ' + rng() % 95));
    out.push_back({kShop, name});
  }
  return out;
}

bool canonical(const ServiceName& name) {
  const auto parsed = parse_service_name(name.ns, name.name);
  return parsed.ok() && *parsed == name;
}

std::string shown(const ServiceName& name) {
  const std::string text = name.str();
  return text.size() <= 60
             ? "'" + text + "'"
             : "'" + text.substr(0, 60) + "...' of " + std::to_string(text.size()) + " bytes";
}

Verdict names(Bench& bench) {
  const ServiceName longest{kShop, std::string(63, 'l')};
  if (!bench.start_ready({kMarker, longest})) return not_judged("synced");
  const auto strange = strange_names(bench.options().seed);
  bench.watch().forget_announced();
  bench.step("putting strange names on the platform");
  for (std::size_t i = 0; i < strange.size(); ++i)
    bench.platform().set_endpoints(strange[i], {endpoint_at(800 + i)});
  bench.platform().set_endpoints({kShop, "strange"}, {endpoint_at(799)});
  if (!news_arrived(bench, 0)) return not_judged("events");
  for (const ServiceName& name : bench.watch().announced())
    if (!canonical(name))
      return failed(
          "services are announced by their canonical name: what osm::parse_service_name() makes of "
          "the platform's, or not at all",
          "the provider announced " + shown(name));
  for (const ServiceName& name : strange) {
    bench.step("asking for " + shown(name));
    const Answer answer = bench.watch().ask(name);
    if (!answer.is(std::nullopt))
      return failed("a name that is not canonical is unknown, whatever it resembles",
                    shown(name) + " is " + answer.text());
  }
  bench.step("using the longest name");
  const std::vector<Endpoint> endpoints{endpoint_at(900)};
  if (!bench.put(longest, endpoints) || !bench.serves(longest, Known(endpoints)))
    return failed("every canonical name must work, up to a label of 63 bytes",
                  shown(longest) + " is " + bench.watch().ask(longest).text());
  return passed(std::to_string(strange.size()) + " strange names unknown, seed " +
                std::to_string(bench.options().seed));
}

}  // namespace

std::vector<ClauseEntry> answer_clauses() {
  return {
      {{"zero-is-not-gone", "without endpoints and unknown are different answers"},
       zero_is_not_gone},
      {{"identity", "the identity comes with the endpoint, never from its address"}, identity},
      {{"spoofed-identity", "no endpoint is served under an identity that it must not have"},
       spoofed_identity},
      {{"optionals", "port, zone, weight and health arrive as the platform has them"}, optionals},
      {{"merge", "two instances share nothing, and merge to one service"}, merge},
      {{"names", "names are canonical: lower case, valid, bounded"}, names}};
}

}  // namespace osm::inline v1::testing
