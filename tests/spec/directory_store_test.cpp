// Edits of a directory notify the changed keys, and a broken file keeps its last content.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <fstream>
#include <future>

#include "directory_fixture.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::spec::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

using Names = std::vector<std::string>;

bool any_contains(const Names& texts, std::string_view part) {
  for (const auto& text : texts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

ObjectKey ns(const std::string& name) { return {kinds::kNamespace, "", name}; }

}  // namespace

TEST_SUITE("spec::DirectoryStore") {
  TEST_CASE_FIXTURE(DirectoryFixture, "files of every level and extension are read at the start") {
    write_file(mesh / "a.yaml", namespace_yaml("a") + "---\n" + namespace_yaml("b"));
    write_file(mesh / "deep/er/c.yml", namespace_yaml("c"));
    write_file(mesh / "d.json", R"({"apiVersion":"v1","kind":"Namespace",
      "metadata":{"name":"d","labels":{"v":"1"}}})");
    write_file(mesh / ".hidden.yaml", namespace_yaml("x"));
    write_file(mesh / ".dir/x.yaml", namespace_yaml("x"));
    write_file(mesh / "backup.yaml~", namespace_yaml("x"));
    write_file(mesh / "#a.yaml#", namespace_yaml("x"));
    write_file(mesh / "README.md", "not yaml: [");
    start();
    CHECK(store->has_synced());
    CHECK(content() == Names{"a=1", "b=1", "c=1", "d=1"});
    CHECK(problems().empty());
    CHECK(store->get(ns("b"))->source.path == (mesh / "a.yaml").string());
    CHECK(store->get(ns("b"))->source.line == 5);
    CHECK(store->get(ns("nobody")) == nullptr);
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "an edit notifies exactly the keys whose content changed") {
    write_file(mesh / "a.yaml", namespace_yaml("a") + "---\n" + namespace_yaml("b"));
    start();
    const auto before = store->get(ns("a"));
    take_notified();
    write_file(mesh / "a.yaml", namespace_yaml("a") + "---\n" + namespace_yaml("b", "2"));
    pass();
    CHECK(content() == Names{"a=1", "b=2"});
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{ns("b")}});
    CHECK(store->get(ns("a")) == before);  // the same pointer
  }

  TEST_CASE_FIXTURE(DirectoryFixture,
                    "catch_up() reads earlier writes without waiting for events") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    start();
    const auto catch_up = [&](milliseconds step) {
      auto caught =
          std::async(std::launch::async, [&] { return store->catch_up(ns("a"), seconds(30)); });
      while (caught.wait_for(milliseconds(1)) != std::future_status::ready) executor.run_for(step);
      return caught.get();
    };
    write_file(mesh / "a.yaml", namespace_yaml("a", "2"));
    write_file(mesh / "b.yaml", namespace_yaml("b"));
    CHECK(content() == Names{"a=1"});
    CHECK(catch_up(milliseconds(0)));  // time stands still, and nobody looks at the watch
    CHECK(content() == Names{"a=2", "b=1"});
    // A file that is gone must stay away for a moment, which is waited for.
    fs::remove(mesh / "a.yaml");
    CHECK(catch_up(milliseconds(10)));
    CHECK(content() == Names{"b=1"});
    CHECK_FALSE(store->catch_up(ns("a"), milliseconds(1)));  // nobody runs the executor
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "an object that only moved tells no key, but its new line") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    start();
    take_notified();
    write_file(mesh / "a.yaml", "# a comment\n" + namespace_yaml("a"));
    pass();
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{}});
    CHECK(store->get(ns("a"))->source.line == 2);
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a file that is touched or rewritten alike is not parsed") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    write_file(mesh / "b.yaml", namespace_yaml("b"));
    start();
    CHECK(metrics.value("osm_spec_file_parses_total") == 2);
    take_notified();
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    pass();
    CHECK(metrics.value("osm_spec_file_reads_total") == 3);
    pass(seconds(25));  // two full looks
    CHECK(metrics.value("osm_spec_file_reads_total") == 3);
    CHECK(metrics.value("osm_spec_file_parses_total") == 2);
    CHECK(take_notified().empty());
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "an edit of equal size and equal times is seen") {
    write_file(mesh / "a.yaml", namespace_yaml("a", "1"));
    start();
    struct stat before {};
    REQUIRE(stat((mesh / "a.yaml").c_str(), &before) == 0);
    write_file(mesh / "a.yaml", namespace_yaml("a", "2"));
    const timespec times[] = {before.st_atim, before.st_mtim};
    REQUIRE(utimensat(AT_FDCWD, (mesh / "a.yaml").c_str(), times, 0) == 0);
    pass();
    CHECK(content() == Names{"a=2"});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a file being written keeps its last content until closed") {
    write_file(mesh / "a.yaml", namespace_yaml("a") + "---\n" + namespace_yaml("b"));
    start();
    std::ofstream out(mesh / "a.yaml", std::ios::trunc);
    pass();
    CHECK(content() == Names{"a=1", "b=1"});
    out << namespace_yaml("a", "2") << std::flush;  // a whole document, but not the whole file
    pass(seconds(25));                              // full looks do not fall for it either
    CHECK(content() == Names{"a=1", "b=1"});
    out << "---\n" << namespace_yaml("b", "2");
    out.close();
    pass(milliseconds(20));
    CHECK(content() == Names{"a=2", "b=2"});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "an empty file keeps the last content for a second") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    start();
    write_file(temporary.path() / "empty", "");
    fs::rename(temporary.path() / "empty", mesh / "a.yaml");
    pass(milliseconds(900));  // on a busy disk a writer's truncated file looks like this
    CHECK(content() == Names{"a=1"});
    pass(milliseconds(300));
    CHECK(content().empty());
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "an editor that renames and rewrites flashes nothing") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    start();
    take_notified();
    fs::rename(mesh / "a.yaml", mesh / "a.yaml~");
    pass(milliseconds(30));
    write_file(mesh / "a.yaml", namespace_yaml("a", "2"));
    pass();
    fs::remove(mesh / "a.yaml~");
    pass();
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{ns("a")}});
    CHECK(content() == Names{"a=2"});
  }

  TEST_CASE_FIXTURE(DirectoryFixture,
                    "a file renamed into place is read, one renamed away is gone") {
    start();
    write_file(temporary.path() / "new.yaml", namespace_yaml("a"));
    fs::rename(temporary.path() / "new.yaml", mesh / "a.yaml");
    pass(milliseconds(20));
    CHECK(content() == Names{"a=1"});
    fs::rename(mesh / "a.yaml", temporary.path() / "away.yaml");
    pass();
    CHECK(content().empty());
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a deleted file removes its objects within a second") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    write_file(mesh / "b.yaml", namespace_yaml("b"));
    start();
    take_notified();
    fs::remove(mesh / "a.yaml");
    pass();
    CHECK(content() == Names{"b=1"});
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{ns("a")}});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a broken document freezes its whole file and says where") {
    write_file(mesh / "a.yaml", namespace_yaml("a") + "---\n" + namespace_yaml("b"));
    write_file(mesh / "c.yaml", namespace_yaml("c"));
    start();
    take_notified();
    write_file(mesh / "a.yaml", namespace_yaml("a", "2") + "---\nkind: [\n---\n");
    write_file(mesh / "c.yaml", namespace_yaml("c", "2"));
    pass();
    CHECK(content() == Names{"a=1", "b=1", "c=2"});
    CHECK(store->has_synced());
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].starts_with("mesh/a.yaml:"));
    CHECK(problems()[0].ends_with("[invalid-syntax]"));
    write_file(mesh / "a.yaml", namespace_yaml("a", "3"));
    pass();
    CHECK(content() == Names{"a=3", "c=2"});
    CHECK(problems().empty());
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "at a cold start a broken file holds readiness back") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    write_file(mesh / "b.yaml", "b: {");
    start();
    pass();
    CHECK_FALSE(store->has_synced());
    CHECK(content() == Names{"a=1"});
    CHECK(any_contains(problems(), "mesh/b.yaml:1"));
    take_notified();
    write_file(mesh / "b.yaml", namespace_yaml("b"));
    pass();
    CHECK(store->has_synced());
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{ns("b")}});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a file above 3 MB keeps the last content and is reported") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    start();
    write_file(mesh / "a.yaml", std::string(4 << 20, '#'));
    pass();
    CHECK(content() == Names{"a=1"});
    CHECK(any_contains(problems(), "mesh/a.yaml: larger than 3 MB"));
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "of duplicates the first path wins, whatever came first") {
    write_file(mesh / "b.yaml", "# first\n" + namespace_yaml("x", "of-b"));
    start();
    CHECK(content() == Names{"x=of-b"});
    write_file(mesh / "a.yaml",
               namespace_yaml("x", "of-a") + "---\n" + namespace_yaml("x", "twice"));
    pass();
    CHECK(content() == Names{"x=of-a"});
    REQUIRE(problems().size() == 2);
    CHECK(problems()[0] ==
          "mesh/a.yaml:5: Namespace x: already defined at mesh"
          "/a.yaml:1, which is used (the first path in byte order); remove one of them "
          "[duplicate-object]");
    CHECK(problems()[1].starts_with("mesh/b.yaml:2: Namespace x: already defined at "));
    take_notified();
    fs::remove(mesh / "a.yaml");
    pass();
    CHECK(content() == Names{"x=of-b"});
    CHECK(problems().empty());
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{ns("x")}});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "new directories are watched, removed ones empty") {
    start();
    write_file(mesh / "team/a.yaml", namespace_yaml("a"));
    pass();
    CHECK(content() == Names{"a=1"});
    write_file(mesh / "team/a.yaml", namespace_yaml("a", "2"));
    pass(milliseconds(30));
    CHECK(content() == Names{"a=2"});
    fs::rename(mesh / "team", mesh / "crew");
    pass();
    CHECK(store->get(ns("a"))->source.path == (mesh / "crew/a.yaml").string());
    fs::remove_all(mesh / "crew");
    pass();
    CHECK(content().empty());
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a mesh directory that vanishes keeps its last content") {
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    write_file(mesh / "sub/b.yaml", namespace_yaml("b"));
    start();
    take_notified();
    fs::rename(mesh, temporary.path() / "away");
    pass(seconds(25));
    CHECK(content() == Names{"a=1", "b=1"});
    CHECK(any_contains(problems(), "mesh: the directory cannot be read (No such file"));
    CHECK(take_notified() == std::vector<std::vector<ObjectKey>>{{}});
    fs::rename(temporary.path() / "away", mesh);
    pass();
    CHECK(problems().empty());
    write_file(mesh / "a.yaml", namespace_yaml("a", "2"));
    pass(milliseconds(30));
    CHECK(content() == Names{"a=2", "b=1"});
    fs::remove_all(mesh);
    pass();
    CHECK(content() == Names{"a=2", "b=1"});
    fs::create_directory(mesh);
    pass(seconds(25));
    CHECK(content() == Names{"a=2", "b=1"});
    CHECK(any_contains(problems(), "mesh: the directory came back empty"));
    write_file(mesh / "c.yaml", namespace_yaml("c"));
    pass();
    CHECK(content() == Names{"c=1"});
    CHECK(problems().empty());
    fs::remove(mesh / "c.yaml");  // the operator's own doing
    pass();
    CHECK(content().empty());
  }

  TEST_CASE("a directory that does not exist yet is waited for") {
    DirectoryFixture fixture(false);
    fixture.start();
    CHECK_FALSE(fixture.store->has_synced());
    CHECK(any_contains(fixture.problems(), "mesh: the directory cannot be read"));
    fs::create_directory(fixture.temporary.path() / "staging");
    write_file(fixture.temporary.path() / "staging/a.yaml", namespace_yaml("a"));
    fs::rename(fixture.temporary.path() / "staging", fixture.mesh);
    fixture.pass();
    CHECK(fixture.store->has_synced());
    CHECK(fixture.content() == Names{"a=1"});
  }

  TEST_CASE("a swapped symbolic link changes everything at once") {
    DirectoryFixture fixture(false);
    for (const char* release : {"1", "2"}) {
      write_file(fixture.temporary.path() / release / "a.yaml", namespace_yaml("a", release));
      write_file(fixture.temporary.path() / release / "b.yaml", namespace_yaml("b", release));
    }
    fs::create_symlink("1", fixture.mesh);
    fixture.start();
    CHECK(fixture.content() == Names{"a=1", "b=1"});
    fixture.take_notified();
    fs::create_symlink("2", fixture.temporary.path() / "next");
    fs::rename(fixture.temporary.path() / "next", fixture.mesh);
    fixture.pass();
    CHECK(fixture.content() == Names{"a=2", "b=2"});
    CHECK(fixture.take_notified() == std::vector<std::vector<ObjectKey>>{{ns("a"), ns("b")}});
    write_file(fixture.temporary.path() / "2/a.yaml", namespace_yaml("a", "3"));
    fixture.pass(milliseconds(30));
    CHECK(fixture.content() == Names{"a=3", "b=2"});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "a mounted ConfigMap's swap of ..data is followed") {
    write_file(mesh / "..1/a.yaml", namespace_yaml("a", "1"));
    write_file(mesh / "..2/a.yaml", namespace_yaml("a", "2"));
    fs::create_symlink("..1", mesh / "..data");
    fs::create_symlink("..data/a.yaml", mesh / "a.yaml");
    start();
    CHECK(content() == Names{"a=1"});
    fs::create_symlink("..2", mesh / "..data_tmp");
    fs::rename(mesh / "..data_tmp", mesh / "..data");
    pass();
    CHECK(content() == Names{"a=2"});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "changes that inotify misses are found by the full scan") {
    write_file(temporary.path() / "elsewhere.yaml", namespace_yaml("a"));
    fs::create_symlink(temporary.path() / "elsewhere.yaml", mesh / "a.yaml");
    fs::create_symlink("..", mesh / "loop");
    start();
    CHECK(content() == Names{"a=1"});
    write_file(temporary.path() / "elsewhere.yaml", namespace_yaml("a", "22"));
    pass(seconds(11));
    CHECK(content() == Names{"a=22"});
  }

  TEST_CASE_FIXTURE(DirectoryFixture, "events lost in a flood are made up for") {
    start();
    std::ifstream limit_file("/proc/sys/fs/inotify/max_queued_events");
    int limit = 0;
    limit_file >> limit;
    REQUIRE(limit > 0);
    for (int i = 0; i <= limit / 2; ++i) {
      // Two names, or equal events would be merged.
      fs::create_directory(mesh / (i % 2 == 0 ? "x" : "y"));
      fs::remove(mesh / (i % 2 == 0 ? "x" : "y"));
    }
    write_file(mesh / "a.yaml", namespace_yaml("a"));
    pass();
    CHECK(content() == Names{"a=1"});
    CHECK(log.count("file events were lost") == 1);
  }

  TEST_CASE("no directory named is an error") {
    DirectoryFixture fixture;
    const auto made = spec::make_directory_store({"", fixture.watcher, fixture.runtime});
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::kInvalidArgument);
  }

  TEST_CASE("after random file operations the store equals a new one") {
    auto random = osm::testing::seeded();
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    DirectoryFixture fixture;
    fixture.start();
    const auto file = [&] {
      const char* const folders[] = {"", "a/", "b/"};
      return fixture.mesh /
             (folders[pick(3)] + std::string(1, static_cast<char>('p' + pick(4))) + ".yaml");
    };
    const auto text = [&] {
      std::string out;
      for (int i = pick(4); i >= 0; --i)
        out += "---\n" + namespace_yaml("n" + std::to_string(pick(6)), std::to_string(pick(3)));
      return out;
    };
    for (int step = 0; step < osm::testing::steps(400, 20'000); ++step) {
      std::error_code ignored;
      switch (pick(7)) {
        case 0:
        case 1:
          write_file(file(), text());
          break;
        case 2:
          fs::remove(file(), ignored);
          break;
        case 3:
          fs::rename(file(), file(), ignored);
          break;
        case 4:
          write_file(fixture.temporary.path() / "t", text());
          fs::rename(fixture.temporary.path() / "t", file(), ignored);
          break;
        case 5:
          fs::rename(fixture.mesh / "a", fixture.mesh / "b", ignored);
          break;
        case 6:
          fixture.pass(milliseconds(10 * pick(12)));
          break;
      }
    }
    fixture.pass();
    DirectoryFixture fresh(false);
    fs::copy(fixture.mesh, fresh.mesh, fs::copy_options::recursive);
    fresh.start();
    CHECK(fresh.store->has_synced());
    std::vector<std::string> now, expected;
    for (const auto& [key, value] : fixture.everything())
      now.push_back(value.substr(0, value.find('@')) +
                    fs::relative(value.substr(value.find('@') + 1), fixture.mesh).string());
    for (const auto& [key, value] : fresh.everything())
      expected.push_back(value.substr(0, value.find('@')) +
                         fs::relative(value.substr(value.find('@') + 1), fresh.mesh).string());
    CHECK(now == expected);
    CHECK(fixture.problems().size() == fresh.problems().size());
  }

  TEST_CASE("under real threads a busy writer never empties the mesh, and readers see its end") {
    TemporaryDirectory temporary;
    const fs::path mesh = temporary.path() / "mesh";
    write_file(mesh / "a.yaml", namespace_yaml("a", "0"));
    osm::testing::ThreadExecutor executor(2);
    ThreadFdWatcher watcher;
    SystemClock clock;
    RandomRng rng{1};
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    auto made = spec::make_directory_store(
        {mesh.string(), watcher, {executor, executor, clock, rng, log, metrics}});
    REQUIRE(made.ok());
    auto store = std::move(made).value();
    std::atomic<int> empty = 0;
    std::atomic<int> notifications = 0;
    auto subscription = store->subscribe([&](const auto&) {
      ++notifications;
      if (store->has_synced() && store->list(kinds::kNamespace).size() != 1) ++empty;
    });
    REQUIRE(osm::testing::wait_until([&] { return store->has_synced(); }));
    for (int i = 1; i <= 200; ++i) {
      std::ofstream out(mesh / "a.yaml", std::ios::trunc);
      out << std::flush;
      const std::string text = namespace_yaml("a", std::to_string(i));
      out << text.substr(0, 20) << std::flush << text.substr(20);
    }
    CHECK(osm::testing::wait_until([&] {
      const auto object = store->get(ns("a"));
      if (!object) ++empty;
      return object && object->labels.at("v") == "200";
    }));
    CHECK(empty == 0);
    CHECK(notifications > 0);
    subscription.reset();
    store.reset();
  }
}
