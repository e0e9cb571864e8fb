// The bytes of a watch of etcd → answers → a table of objects: it does not matter in which pieces
// they come, an object is always that of its key, and a table that heard of changes knows what one
// knows that lists them.
//
//   input: '1' to '9', the size of a piece; a line feed; then the bytes of the response.
#include <boost/json/value.hpp>
#include <map>
#include <string>
#include <vector>

#include "etcd/object_table.hpp"
#include "etcd/watch_answers.hpp"
#include "fuzz/fuzz.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using etcd::WatchAnswer;
using etcd::WatchReader;

struct Seen {
  std::vector<WatchAnswer> answers;
  Status end;
};

Seen read(std::string_view bytes, std::size_t piece) {
  Seen seen;
  WatchReader reader;
  for (std::size_t at = 0; at < bytes.size() && seen.end.ok(); at += piece) {
    auto answers = reader.read(bytes.substr(at, piece));
    if (!answers.ok()) {
      seen.end = answers.error();
      break;
    }
    for (WatchAnswer& answer : *answers) seen.answers.push_back(std::move(answer));
  }
  return seen;
}

void check_same(const WatchAnswer& a, const WatchAnswer& b) {
  require(a.revision == b.revision && a.created == b.created && a.canceled == b.canceled &&
              a.fragment == b.fragment && a.compact_revision == b.compact_revision &&
              a.reason == b.reason && a.events.size() == b.events.size(),
          "an answer does not depend on the pieces that it comes in");
  for (std::size_t i = 0; i < a.events.size(); ++i)
    require(a.events[i].pair == b.events[i].pair && a.events[i].deleted == b.events[i].deleted,
            "an event does not depend on the pieces that it comes in");
}

void check_table(const std::vector<WatchAnswer>& answers) {
  const spec::Kinds& kinds = spec::mesh_kinds();
  etcd::ObjectTable heard(etcd::ObjectKeys("/osm"), kinds);
  std::map<std::string, etcd::Pair> present;
  heard.replace({});
  for (const WatchAnswer& answer : answers) {
    for (const etcd::WatchEvent& event : answer.events) {
      const auto known = present.find(event.pair.key);
      if (known != present.end() && known->second.revision >= event.pair.revision) continue;
      event.deleted ? heard.remove(event.pair) : heard.put(event.pair);
      if (event.deleted)
        present.erase(event.pair.key);
      else
        present[event.pair.key] = event.pair;
    }
    for (const ObjectKey& key : heard.take_changes().keys) {
      const auto object = heard.get(key);
      require(!object || object->key == key, "an announced key is its object's");
    }
  }
  require(heard.size() == present.size(), "the table has each key once");
  etcd::ObjectTable listed(etcd::ObjectKeys("/osm"), kinds);
  std::vector<etcd::Pair> pairs;
  for (const auto& [key, pair] : present) pairs.push_back(pair);
  listed.replace(pairs);
  for (const spec::Kind& kind : kinds)
    for (const auto& object : listed.list(kind.name)) {
      require(heard.keys().object_of(*heard.keys().key_of(object->key)) == object->key,
              "an object has a key of its own");
      const auto other = heard.get(object->key);
      require(other && *other->document == *object->document,
              "a table that heard of an object knows what one knows that listed it");
    }
}

void run(Choices choices) {
  const std::size_t piece = choices.below(9) + 1;
  choices.line();
  const std::string_view bytes = choices.rest();
  const Seen whole = read(bytes, bytes.size() + 1);
  const Seen parts = read(bytes, piece);
  require(whole.end.ok() == parts.end.ok(), "the end does not depend on the pieces");
  // Whole answers are given out before a fault behind it, or not, as the pieces have it.
  if (whole.end.ok()) {
    require(whole.answers.size() == parts.answers.size(), "no answer is lost between pieces");
    for (std::size_t i = 0; i < whole.answers.size(); ++i)
      check_same(whole.answers[i], parts.answers[i]);
  } else {
    require(whole.end.error() == parts.end.error(), "the error does not depend on the pieces");
  }
  check_table(parts.answers);
}

const bool kAdded = add("etcd_watch", [](std::string_view input) { run(Choices(input)); });

}  // namespace
