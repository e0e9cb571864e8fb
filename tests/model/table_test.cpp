// A persistent table equals an ordered map after any changes and shares unchanged entries.
#include "model/table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "lib/run.hpp"
#include "lib/tables.hpp"

using namespace osm;
using namespace osm::model;

namespace {

struct Item {
  int id = 0;
  std::string text;
  int key() const { return id; }
};

std::shared_ptr<const Item> item(int id, std::string text = "") {
  return std::make_shared<const Item>(Item{id, std::move(text)});
}

std::string ids(const Table<Item>& table) {
  std::string out;
  for (const auto& entry : table) out += std::to_string(entry->id) + ' ';
  return out;
}

TEST_SUITE("model::Table") {
  TEST_CASE("entries are ordered by key whatever order they came in") {
    const Table<Item> table({item(3), item(1), item(2)});
    CHECK(ids(table) == "1 2 3 ");
    REQUIRE(table.find(2));
    CHECK(table.find(2)->id == 2);
    CHECK(table.find(0) == nullptr);
    CHECK(table.find(4) == nullptr);
    CHECK(Table<Item>().find(1) == nullptr);
  }

  TEST_CASE("changing a table makes a new one and leaves the old one as it was") {
    const Table<Item> before({item(1, "a"), item(3, "c")});
    const Table<Item> added = with(before, item(2, "b"));
    const Table<Item> replaced = with(before, item(1, "A"));
    const Table<Item> removed = without(before, 3);
    CHECK(ids(before) == "1 3 ");
    CHECK(before.find(1)->text == "a");
    CHECK(ids(added) == "1 2 3 ");
    CHECK(ids(replaced) == "1 3 ");
    CHECK(replaced.find(1)->text == "A");
    CHECK(ids(removed) == "1 ");
    CHECK(ids(without(before, 2)) == "1 3 ");
  }

  TEST_CASE("entries that did not change are shared, not copied") {
    const Table<Item> before({item(1), item(2)});
    const Table<Item> after = without(with(before, item(3)), 2);
    CHECK(after.find(1).get() == before.find(1).get());
  }

  TEST_CASE("after any sequence of changes it equals an ordered map") {
    auto random = osm::testing::seeded();
    Table<Item> table;
    std::map<int, std::string> model;
    for (int step = 0; step < 2000; ++step) {
      const int id = static_cast<int>(random() % 50);
      if (random() % 3 == 0) {
        table = without(table, id);
        model.erase(id);
      } else {
        table = with(table, item(id, std::to_string(step)));
        model[id] = std::to_string(step);
      }
      REQUIRE(table.size() == model.size());
    }
    auto expected = model.begin();
    for (const auto& entry : table) {
      CHECK(entry->id == expected->first);
      CHECK(entry->text == expected->second);
      ++expected;
    }
  }
}

}  // namespace
