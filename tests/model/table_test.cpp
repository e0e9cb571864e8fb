// A persistent table equals an ordered map after any changes and shares unchanged entries.
#include "osm/values/table.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "lib/run.hpp"
#include "osm/values/spec_snapshot.hpp"

using namespace osm;

namespace {

struct Item {
  int id = 0;
  std::string text;
  int key() const { return id; }
  friend bool operator==(const Item&, const Item&) = default;
};

std::shared_ptr<const Item> item(int id, std::string text = "") {
  return std::make_shared<const Item>(Item{id, std::move(text)});
}

std::string ids(const Table<Item>& table) {
  std::string out;
  for (const auto& entry : table) out += std::to_string(entry->id) + ' ';
  return out;
}

TEST_SUITE("Table") {
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
    const Table<Item> added = before.with(item(2, "b"));
    const Table<Item> replaced = before.with(item(1, "A"));
    const Table<Item> removed = before.without(3);
    CHECK(ids(before) == "1 3 ");
    CHECK(before.find(1)->text == "a");
    CHECK(ids(added) == "1 2 3 ");
    CHECK(ids(replaced) == "1 3 ");
    CHECK(replaced.find(1)->text == "A");
    CHECK(ids(removed) == "1 ");
    CHECK(ids(before.without(2)) == "1 3 ");
  }

  TEST_CASE("values that did not change are shared, not copied") {
    const Table<Item> before({item(1), item(2), item(4)});
    const Table<Item> after = before.with(item(3)).without(2);
    CHECK(ids(after) == "1 3 4 ");
    CHECK(after.find(1) == before.find(1));
    CHECK(after.find(4) == before.find(4));
  }

  TEST_CASE("a table without a change is the same table") {
    const Table<Item> before({item(1), item(2)});
    const Table<Item> copy = before;
    CHECK(&copy.list() == &before.list());
    CHECK(&before.without(3).list() == &before.list());
    CHECK(&before.with(before.find(2)).list() == &before.list());
    CHECK(&before.edited({{1, before.find(1)}, {3, nullptr}}).list() == &before.list());
    CHECK(&before.with(item(2)).list() != &before.list());
  }

  TEST_CASE("several changes at once keep the order and the values between them") {
    const Table<Item> before({item(1), item(3), item(5), item(7)});
    const Table<Item> after = before.edited(
        {{0, item(0)}, {1, nullptr}, {2, nullptr}, {3, item(3, "c")}, {6, item(6)}, {9, item(9)}});
    CHECK(ids(after) == "0 3 5 6 7 9 ");
    CHECK(after.find(3)->text == "c");
    CHECK(after.find(5) == before.find(5));
    CHECK(after.find(7) == before.find(7));
    CHECK(ids(before) == "1 3 5 7 ");
  }

  TEST_CASE("a comparison tells added, replaced and removed values in order, and equal ones not") {
    const auto told = [](const Table<Item>& before, const Table<Item>& after) {
      std::string out;
      Table<Item>::compare(before, after, [&](const auto& old, const auto& now) {
        out += (old ? std::to_string(old->id) : "-") + ">" + (now ? now->text : "-") + " ";
      });
      return out;
    };
    const Table<Item> before({item(1, "a"), item(2, "b"), item(3, "c"), item(5, "e")});
    const Table<Item> after(
        {item(0, "z"), before.find(1), item(2, "b"), item(3, "C"), item(6, "f")});
    CHECK(told(before, after) == "->z 3>C 5>- ->f ");
    CHECK(told(after, before) == "0>- 3>c ->e 6>- ");
    CHECK(told(before, before).empty());
    CHECK(told({}, before) == "->a ->b ->c ->e ");
  }

  TEST_CASE("public values are ordered by namespace and name, policies by object") {
    const Table<ServiceAccount> accounts(SharedList<ServiceAccount>{
        std::make_shared<const ServiceAccount>(ServiceAccount{"shop", "b"}),
        std::make_shared<const ServiceAccount>(ServiceAccount{"bank", "z"})});
    CHECK(accounts.list().front()->ns == "bank");
    CHECK(accounts.find({"shop", "b"}));
    MeshRootCertificate root;
    root.name = "first";
    CHECK(Table<MeshRootCertificate>()
              .with(std::make_shared<const MeshRootCertificate>(root))
              .find("first"));
    Service service;
    service.name = {"shop", "api"};
    CHECK(Table<Service>().with(std::make_shared<const Service>(service)).find({"shop", "api"}));
    const ObjectKey key{kinds::kRetry, "shop", "r"};
    const auto policies = Table<Policy>().with(std::make_shared<const Policy>(key, 1));
    REQUIRE(policies.find(key));
    CHECK_FALSE(policies.find({kinds::kEgress, "shop", "r"}));
  }

  TEST_CASE("after any sequence of changes it equals an ordered map") {
    auto random = osm::testing::seeded();
    Table<Item> table;
    std::map<int, std::string> model;
    for (int step = 0; step < 2000; ++step) {
      const int id = static_cast<int>(random() % 50);
      if (random() % 3 == 0) {
        table = table.without(id);
        model.erase(id);
      } else {
        table = table.with(item(id, std::to_string(step)));
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
