// The order in which a directory's objects were first seen is kept over a restart, and a damaged or
// unwritable record is told.
#include "spec/first_seen.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "directory_fixture.hpp"
#include "osm/runtime/text_record.hpp"

using namespace osm;
using namespace osm::spec::testing;
using osm::spec::FirstSeen;

namespace {

ObjectKey service(const std::string& name) { return {kinds::kService, "shop", name}; }

std::string service_yaml(const std::string& name) {
  return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name +
         ", namespace: shop}\nspec: {clusterIP: 10.0.0.7, ports: [{port: 80}]}\n";
}

// A record that can be made to fail.
class MemoryRecord final : public TextRecord {
 public:
  std::string name() const override { return "record"; }
  Result<Text> load() override {
    if (away) return Error{ErrorCode::kStorage, "record: cannot be read"};
    return Text{text, text};
  }
  Status store(const Text& next) override {
    if (away || full) return Error{ErrorCode::kStorage, "record: no space"};
    if (next.version != text) return Error{ErrorCode::kConflict, "record: of another version"};
    text = next.text;
    return {};
  }

  std::string text;
  bool away = false;
  bool full = false;
};

struct Fixture : DirectoryFixture {
  void start() {
    store = spec::make_directory_store({.directory = mesh.string(),
                                        .watcher = watcher,
                                        .runtime = runtime,
                                        .first_seen = {std::shared_ptr<TextRecord>(), &record}})
                .value();
    executor.run_until_idle();
  }
  void restart() {
    store.reset();
    start();
  }
  void put(const std::string& name) {
    write_file(mesh / (name + ".yaml"), service_yaml(name));
    if (store) pass();
  }
  std::uint64_t order(const std::string& name) const {
    const auto object = store->get(service(name));
    REQUIRE(object);
    return object->created.order;
  }

  MemoryRecord record;
};

}  // namespace

TEST_SUITE("spec::FirstSeen") {
  TEST_CASE("an object keeps its place, and one that comes again is new") {
    FirstSeen seen;
    CHECK(seen.place_of(service("b")) == 1);
    CHECK(seen.place_of(service("a")) == 1);  // of one look
    CHECK(seen.place_of({kinds::kTrafficTarget, "shop", "t"}) == 0);
    CHECK(seen.end_look());
    CHECK_FALSE(seen.end_look());
    CHECK(seen.place_of(service("a")) == 1);
    CHECK(seen.place_of(service("c")) == 2);
    CHECK(seen.end_look());
    seen.forget(service("b"));
    CHECK(seen.end_look());
    CHECK(seen.place_of(service("b")) == 3);
    seen.keep_only([](const ObjectKey& key) { return key.name == "b"; });
    CHECK(seen.place_of(service("a")) == 3);
  }

  TEST_CASE("a record gives the order back") {
    FirstSeen before;
    before.place_of({kinds::kVirtualMachine, "shop", "m"});
    before.end_look();
    before.place_of(service("gone"));
    before.end_look();
    before.place_of(service("z"));
    before.place_of(service("y"));
    before.end_look();
    before.forget(service("gone"));
    FirstSeen after;
    REQUIRE(after.read(before.text()).ok());
    const auto machine = after.place_of({kinds::kVirtualMachine, "shop", "m"});
    CHECK(machine < after.place_of(service("z")));
    CHECK(after.place_of(service("z")) == after.place_of(service("y")));
    CHECK(after.place_of(service("z")) < after.place_of(service("new")));
  }

  TEST_CASE("a text that is no record is refused and changes nothing") {
    FirstSeen seen;
    seen.place_of(service("a"));
    for (const char* bad : {"{", "[]", "{}", R"({"looks":[1]})", R"({"looks":[[1]]})",
                            R"({"looks":[["Service a"]]})", R"({"looks":[["Pod shop/a"]]})"}) {
      CAPTURE(bad);
      const Status read = seen.read(bad);
      REQUIRE_FALSE(read.ok());
      CHECK(read.error().code == ErrorCode::kInvalidSyntax);
    }
    CHECK(seen.place_of(service("a")) == 1);
    CHECK(seen.read("").ok());
  }

  TEST_CASE("a record that would be too large leaves out the newest objects") {
    FirstSeen seen;
    seen.place_of(service("oldest"));
    seen.end_look();
    for (int i = 0; i < 10'000; ++i)
      seen.place_of(service(std::string(200, 'x') + std::to_string(i)));
    seen.end_look();
    CHECK(seen.text().size() <= FirstSeen::kMaxText);
    FirstSeen after;
    REQUIRE(after.read(seen.text()).ok());
    CHECK(after.place_of(service("oldest")) < after.place_of(service(std::string(200, 'x') + "1")));
  }
}

TEST_SUITE("spec::DirectoryStore") {
  TEST_CASE_FIXTURE(Fixture, "objects of a directory are ordered by first sight, over a restart") {
    put("b");
    put("a");
    start();
    CHECK(order("a") == order("b"));
    put("aa");
    CHECK(order("aa") > order("a"));
    restart();
    CHECK(order("a") == order("b"));
    CHECK(order("aa") > order("a"));
    // An edit is no new object, and a file under another name is not either.
    write_file(mesh / "b.yaml", service_yaml("b") + "---\n" + service_yaml("c"));
    fs::rename(mesh / "a.yaml", mesh / "moved.yaml");
    pass();
    CHECK(order("a") == order("b"));
    CHECK(order("c") > order("aa"));
    fs::remove(mesh / "moved.yaml");
    pass();
    CHECK(store->get(service("a")) == nullptr);
    put("a");
    CHECK(order("a") > order("c"));
    store.reset();
    fs::remove(mesh / "a.yaml");
    start();
    put("a");
    restart();
    CHECK(order("a") > order("c"));
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "nothing is announced before the order is known") {
    put("a");
    record.away = true;
    start();
    CHECK_FALSE(store->has_synced());
    CHECK(store->list(kinds::kService).empty());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("record: cannot be read") != std::string::npos);
    record.away = false;
    pass(std::chrono::seconds(11));
    CHECK(store->has_synced());
    CHECK(order("a") == 1);
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "a record that cannot be written is a problem, and is written later") {
    start();
    record.full = true;
    put("a");
    CHECK(order("a") > 0);
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].find("record: no space") != std::string::npos);
    CHECK(problems()[0].ends_with("[storage]"));
    put("b");
    record.full = false;
    pass(std::chrono::seconds(11));
    CHECK(problems().empty());
    CHECK(record.text.find("Service shop/b") != std::string::npos);
  }

  TEST_CASE_FIXTURE(Fixture, "a damaged record is told, and begins anew") {
    record.text = "{";
    put("a");
    start();
    CHECK(order("a") == 1);
    CHECK(log.count("the order of objects is lost") == 1);
    CHECK(record.text.find("Service shop/a") != std::string::npos);
  }
}
