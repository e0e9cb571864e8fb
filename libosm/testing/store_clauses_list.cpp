// Clauses about lists, pointers and announcements of a store.
#include <algorithm>
#include <atomic>
#include <thread>

#include "testing/store_bench.hpp"

namespace osm::inline v1::testing {
namespace {

using Names = std::vector<std::string>;

std::string text_of(const Names& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : " ").append(name);
  return text.empty() ? "nothing" : text;
}

Verdict synced(StoreBench& bench) {
  bench.platform().put(route_group("a"));
  bench.platform().put(route_group("b"));
  bench.start();
  if (bench.store().has_synced() && bench.names().size() != 2)
    return failed("has_synced() must be false until everything that is there is listed",
                  "it was true with " + text_of(bench.names()));
  if (!bench.wait([&] { return bench.store().has_synced(); }))
    return failed("has_synced() must turn true after the first complete read",
                  "it was false until the deadline");
  if (bench.names() != Names{"shop/a", "shop/b"})
    return failed("once has_synced() is true, everything that was there is listed",
                  text_of(bench.names()));
  if (!bench.wait([&] { return bench.calls() > 0; }))
    return failed("subscribers are told when has_synced() changes", "no announcement");
  return passed("2 objects, then has_synced()");
}

Verdict empty(StoreBench& bench) {
  if (!bench.start_synced())
    return failed("a source without any object is read, too: has_synced() turns true",
                  "it was false until the deadline");
  if (!bench.names().empty() || !bench.store().list_problems().empty())
    return failed("an empty source has neither objects nor problems", text_of(bench.names()));
  return passed("synced without objects");
}

Verdict order(StoreBench& bench) {
  for (const char* name : {"b", "a-1", "a", "c"}) bench.platform().put(route_group(name));
  bench.platform().put(route_group("z", "/", "arcade"));
  bench.platform().put(service("a"));
  if (!bench.start_synced()) return not_judged("synced");
  const Names expected{"arcade/z", "shop/a", "shop/a-1", "shop/b", "shop/c"};
  if (bench.names() != expected)
    return failed("list() gives the objects of one kind, ordered by namespace and name",
                  text_of(bench.names()));
  if (!bench.store().list({"example.com", "HTTPRouteGroup"}).empty())
    return failed("a kind of the same name in another group is another kind",
                  "list() of another group is not empty");
  return passed(text_of(expected));
}

Verdict get_is_list(StoreBench& bench) {
  bench.platform().put(route_group("a"));
  if (!bench.start_synced()) return not_judged("synced");
  const auto listed = bench.store().list(kinds::kHttpRouteGroup);
  if (listed.size() != 1 || bench.get(listed.front()->key) != listed.front())
    return failed("get() and list() give the same pointer", "two pointers");
  const Object& object = *listed.front();
  if (!object.document || object.api_version != "specs.smi-spec.io/v1alpha4" ||
      object.source.path.empty())
    return failed("an object has its document, its apiVersion and the place that it was read from",
                  "one of them is missing");
  for (const ObjectKey& key : {ObjectKey{kinds::kHttpRouteGroup, "shop", "none"},
                               {kinds::kService, "shop", "a"},
                               {kinds::kHttpRouteGroup, "", "a"},
                               {kinds::kHttpRouteGroup, "shop", "a/../a"}})
    if (bench.get(key))
      return failed("get() of an object that is not there is null", "an object for " + key.str());
  return passed("one pointer");
}

Verdict events(StoreBench& bench) {
  bench.platform().put(route_group("a"));
  bench.platform().put(route_group("b"));
  if (!bench.start_synced()) return not_judged("synced");
  bench.settle();
  bench.told();
  bench.expect([&](const ObjectKey& key) {
    const ObjectPtr known = bench.get(key);
    return key.name == "b" ? !known : path_of(known) == "/new";
  });
  bench.platform().put(route_group("a", "/new"));
  bench.platform().put(route_group("c", "/new"));
  bench.platform().remove(route_group("b").key);
  const bool all = bench.wait([&] {
    return path_of(bench.get(route_group("a").key)) == "/new" &&
           bench.names() == Names{"shop/a", "shop/c"};
  });
  if (!all) return failed("a change of the source is read", text_of(bench.names()));
  bench.settle();
  if (const Names told = bench.told(); told != Names{"shop/a", "shop/b", "shop/c"})
    return failed(
        "subscribers are told the keys that were added, changed or removed, and no others",
        text_of(told));
  if (bench.surprises() > 0)
    return failed("a key is announced after its state can be read",
                  "a subscriber read the state before");
  return passed("added, changed and removed");
}

Verdict same_pointer(StoreBench& bench) {
  bench.platform().put(route_group("a"));
  if (!bench.start_synced()) return not_judged("synced");
  bench.settle();
  bench.told();
  const ObjectPtr kept = bench.get(route_group("a").key);
  bench.platform().put(route_group("a"));  // written again
  if (!bench.put(route_group("b"))) return not_judged("events");
  bench.settle();
  if (bench.get(kept->key) != kept)
    return failed(
        "while its content and place are the same an object keeps its pointer, or every "
        "reader does its work again",
        "another pointer");
  if (const Names told = bench.told(); told != Names{"shop/b"})
    return failed("an object that is written again with the same content is not announced",
                  text_of(told));
  return passed("one pointer for the same content");
}

Verdict immutable(StoreBench& bench) {
  bench.platform().put(route_group("a", "/old"));
  if (!bench.start_synced()) return not_judged("synced");
  const ObjectPtr old = bench.get(route_group("a").key);
  if (!bench.put(route_group("a", "/new"))) return not_judged("events");
  if (path_of(old) != "/old")
    return failed("an object that was given out never changes", "it shows " + path_of(old));
  return passed("the old object is as it was");
}

Verdict catches_up(StoreBench& bench) {
  bench.platform().put(route_group("gone"));
  if (!bench.start_synced()) return not_judged("synced");
  const Object object = route_group("a", "/new");
  for (int round = 0; round < 5; ++round) {
    bench.platform().put(object);
    bench.told();
    if (!bench.catch_up(object.key, bench.options().deadline))
      return failed("catch_up() reads what was written before the call", "it was false");
    if (path_of(bench.get(object.key)) != "/new")
      return failed("after catch_up() get() answers no older version", "an older version");
    if (bench.told() != Names{"shop/a"})
      return failed("subscribers are notified before catch_up() returns", "they were not");
    bench.platform().remove(object.key);
    if (!bench.catch_up(object.key, bench.options().deadline) || bench.get(object.key))
      return failed("catch_up() reads that an object is gone, too", "it is still there");
  }
  bench.step("catching up with nothing");
  if (!bench.catch_up({kinds::kHttpRouteGroup, "shop", "none"}, bench.options().deadline))
    return failed("catch_up() with an object that does not exist has nothing to wait for",
                  "it was false");
  return passed("5 rounds");
}

Verdict unsubscribe(StoreBench& bench) {
  if (!bench.start_synced()) return not_judged("synced");
  bench.settle();
  bench.unsubscribe();
  const std::size_t before = bench.calls();
  if (!bench.put(route_group("a"))) return not_judged("events");
  bench.settle();
  if (bench.calls() != before)
    return failed("no callback runs after its handle was destroyed", "one was called");
  // Handles that come and go while the store announces.
  std::atomic<bool> ended{false};
  std::atomic<int> late{0};
  std::thread other([&] {
    while (!ended) {
      std::atomic<bool> living{true};
      {
        const Subscription handle = bench.store().subscribe([&](const auto&) {
          if (!living) ++late;
        });
        std::this_thread::yield();
      }
      living = false;
    }
  });
  bool read = true;
  for (int round = 0; round < 20 && read; ++round)
    read = bench.put(route_group("a", "/" + std::to_string(round)));
  ended = true;
  other.join();
  if (!read) return not_judged("events");
  if (late > 0) return failed("a handle's destructor waits for a running callback", "a late call");
  return passed("no call after the end of a handle");
}

}  // namespace

std::vector<StoreClause> store_list_clauses() {
  return {
      {{"synced", "has_synced() turns true when everything has been read"}, synced},
      {{"empty", "a source without objects is read"}, empty},
      {{"order", "lists are of one kind, by namespace and name"}, order},
      {{"get-is-list", "get() and list() give the same objects"}, get_is_list},
      {{"events", "exactly the changed keys are announced, after they can be read"}, events},
      {{"same-pointer", "the same content keeps its pointer"}, same_pointer},
      {{"immutable", "an object that was given out never changes"}, immutable},
      {{"catch-up", "catch_up() reads what was written before"}, catches_up},
      {{"unsubscribe", "no callback outlives its handle"}, unsubscribe},
  };
}

}  // namespace osm::inline v1::testing
