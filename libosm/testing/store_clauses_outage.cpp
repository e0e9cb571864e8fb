// Clauses about sources that cannot be reached, and texts that are no objects.
#include <algorithm>

#include "testing/store_bench.hpp"

namespace osm::inline v1::testing {
namespace {

using Names = std::vector<std::string>;

Verdict cannot_break() { return not_applicable("the source cannot be unreachable"); }
Verdict cannot_hold() { return not_applicable("the source holds objects only"); }

std::string problems_of(StoreBench& bench) {
  std::string text;
  for (const Problem& problem : bench.store().list_problems())
    text.append(text.empty() ? "" : "; ").append(problem.text());
  return text.empty() ? "no problem" : text;
}

bool has_problem(StoreBench& bench) { return !bench.store().list_problems().empty(); }

Verdict lost(StoreBench& bench) {
  if (!bench.platform().traits().outages) return cannot_break();
  bench.platform().put(route_group("a"));
  bench.platform().put(route_group("b"));
  if (!bench.start_synced()) return not_judged("synced");
  bench.settle();
  bench.told();
  bench.step("taking the source away");
  bench.platform().set_reachable(false);
  bench.platform().remove(route_group("a").key);  // unseen
  if (!bench.wait([&] { return has_problem(bench); }))
    return failed("a source that cannot be read is a problem", "no problem until the deadline");
  bench.settle();
  if (bench.names() != Names{"shop/a", "shop/b"} || !bench.told().empty())
    return failed(
        "a source that goes away takes no object with it, or its outage becomes one of "
        "the mesh",
        std::to_string(bench.names().size()) + " objects are left");
  if (!bench.store().has_synced())
    return failed("has_synced() must stay true when the source goes away later",
                  "has_synced() is false again");
  return passed("its last objects, and " + problems_of(bench));
}

Verdict recovers(StoreBench& bench) {
  if (!bench.platform().traits().outages) return cannot_break();
  for (const char* name : {"a", "b", "c"}) bench.platform().put(route_group(name));
  if (!bench.start_synced()) return not_judged("synced");
  bench.settle();
  const ObjectPtr kept = bench.get(route_group("b").key);
  bench.platform().set_reachable(false);
  if (!bench.wait([&] { return has_problem(bench); })) return not_judged("lost");
  bench.told();
  bench.platform().remove(route_group("a").key);
  bench.platform().put(route_group("c", "/new"));
  bench.platform().put(route_group("d"));
  bench.step("giving the source back");
  bench.platform().set_reachable(true);
  const bool back = bench.wait([&] {
    return bench.names() == Names{"shop/b", "shop/c", "shop/d"} &&
           path_of(bench.get(route_group("c").key)) == "/new" && !has_problem(bench);
  });
  if (!back)
    return failed("when the source is back its changes are read and the problem goes",
                  problems_of(bench));
  bench.settle();
  if (bench.told() != Names{"shop/a", "shop/c", "shop/d"})
    return failed("after an outage only the differences are announced", "others were announced");
  if (bench.get(kept->key) != kept)
    return failed("an object that did not change during the outage keeps its pointer",
                  "another pointer");
  return passed("the differences only");
}

Verdict unreachable_at_start(StoreBench& bench) {
  if (!bench.platform().traits().outages) return cannot_break();
  bench.platform().put(route_group("a"));
  bench.platform().set_reachable(false);
  bench.start();
  if (!bench.wait([&] { return has_problem(bench); }))
    return failed("a source that cannot be read when the store starts is a problem",
                  "no problem until the deadline");
  if (bench.store().has_synced())
    return failed("a store that has read nothing has not synced: the mesh would be empty",
                  "has_synced() is true");
  bench.platform().set_reachable(true);
  if (!bench.wait([&] { return bench.store().has_synced(); }) || bench.names() != Names{"shop/a"})
    return failed("a store syncs when its source comes later", "it does not");
  return passed("not synced until the source is there");
}

Verdict times_out(StoreBench& bench) {
  if (!bench.platform().traits().outages) return cannot_break();
  bench.platform().put(route_group("a"));
  if (!bench.start_synced()) return not_judged("synced");
  bench.platform().set_reachable(false);
  if (!bench.wait([&] { return has_problem(bench); })) return not_judged("lost");
  bench.platform().put(route_group("a", "/new"));
  const bool caught_up = bench.catch_up(route_group("a").key, std::chrono::milliseconds(200));
  if (caught_up && path_of(bench.get(route_group("a").key)) != "/new")
    return failed("catch_up() is false if it could not read the source", "it was true");
  return passed("false while the source is away");
}

Verdict never_blocks(StoreBench& bench) {
  if (!bench.platform().traits().outages) return cannot_break();
  bench.platform().put(route_group("a"));
  if (!bench.start_synced()) return not_judged("synced");
  bench.platform().set_reachable(false);
  bench.step("reading while the source is away");
  const bool in_time = bench.in_time([&] {
    static_cast<void>(bench.store().list(kinds::kHttpRouteGroup));
    static_cast<void>(bench.store().get(route_group("a").key));
    static_cast<void>(bench.store().has_synced());
    static_cast<void>(bench.store().list_problems());
    static_cast<void>(bench.store().subscribe([](const auto&) {}));
  });
  if (!in_time)
    return failed("list(), get(), has_synced(), list_problems() and subscribe() never block",
                  "one of them did not return in time");
  return passed("all return at once");
}

Verdict broken(StoreBench& bench) {
  if (!bench.platform().traits().broken) return cannot_hold();
  bench.platform().put(route_group("a"));
  bench.platform().put(route_group("b"));
  if (!bench.start_synced()) return not_judged("synced");
  bench.settle();
  bench.told();
  bench.platform().put_broken(route_group("a").key);
  if (!bench.wait([&] { return has_problem(bench); }))
    return failed("a text that is no object is a problem", "no problem until the deadline");
  if (!bench.put(route_group("b", "/new")))
    return failed("a text that is no object does not hide the others", "a change is not read");
  bench.settle();
  if (path_of(bench.get(route_group("a").key)) != "/")
    return failed("a text that cannot be read keeps the last good content", "it is gone");
  if (!bench.store().has_synced())
    return failed("has_synced() stays true", "has_synced() is false again");
  if (bench.told() != Names{"shop/b"})
    return failed("an object whose text cannot be read has not changed", "it was announced");
  const std::string problem = problems_of(bench);
  if (bench.store().list_problems().front().path.empty())
    return failed("the problem names the place of the text", problem);
  bench.platform().put(route_group("a", "/repaired"));
  if (!bench.wait([&] {
        return path_of(bench.get(route_group("a").key)) == "/repaired" && !has_problem(bench);
      }))
    return failed("a repaired text is read, and its problem goes", problems_of(bench));
  return passed(problem);
}

Verdict broken_at_start(StoreBench& bench) {
  if (!bench.platform().traits().broken) return cannot_hold();
  bench.platform().put(route_group("b"));
  bench.platform().put_broken(route_group("a").key);
  bench.start();
  if (!bench.wait([&] { return has_problem(bench); }))
    return failed("a text that is no object is a problem", "no problem until the deadline");
  bench.settle();
  if (bench.store().has_synced())
    return failed(
        "a text that could never be read may be a policy that refuses: the store has not "
        "synced before it could read every source",
        "has_synced() is true");
  bench.platform().put(route_group("a"));
  if (!bench.wait([&] { return bench.store().has_synced(); }) ||
      bench.names() != Names{"shop/a", "shop/b"})
    return failed("the store syncs when the text is repaired", problems_of(bench));
  return passed("not synced until it was repaired");
}

}  // namespace

std::vector<StoreClause> store_outage_clauses() {
  return {
      {{"lost", "a source that goes away takes no object with it"}, lost},
      {{"recovers", "after an outage the differences are read"}, recovers},
      {{"not-synced", "a store that could read nothing has not synced"}, unreachable_at_start},
      {{"catch-up-fails", "catch_up() is false if the source cannot be read"}, times_out},
      {{"never-blocks", "readers never wait for the source"}, never_blocks},
      {{"broken", "a text that is no object keeps the last good content"}, broken},
      {{"broken-at-start", "a store does not sync before it could read everything"},
       broken_at_start},
  };
}

}  // namespace osm::inline v1::testing
