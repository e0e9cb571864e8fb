// A worse count fails against the baseline, and an equal one passes.
#include "baseline.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace osm::bench {
namespace {

Measurement measured(int proxies, std::map<std::string, std::uint64_t> counts, double beyond) {
  Measurement m;
  m.size = {.permissive = false, .proxies = proxies, .services = 10};
  m.counts = std::move(counts);
  m.bare.resident_bytes_per_proxy = 100'000;
  m.osm.resident_bytes_per_proxy = 100'000 + beyond;
  return m;
}

const std::map<std::string, std::uint64_t> kCounts{{"start.responses", 500},
                                                   {"start.bytes", 100'000}};

Baseline baseline() {
  return {.counts = {{"smi-100x10", kCounts}, {"smi-1000x10", kCounts}},
          .bytes_per_proxy_beyond_bare = 25'000};
}

std::vector<std::string> judge(int proxies, std::map<std::string, std::uint64_t> counts,
                               double beyond = 0) {
  return regressions(measured(proxies, std::move(counts), beyond), baseline());
}

}  // namespace

TEST_SUITE("bench::Baseline") {
  TEST_CASE("what is not worse passes") {
    CHECK(judge(100, kCounts).empty());
    CHECK(judge(100, {{"start.responses", 499}, {"start.bytes", 50'000}}).empty());
  }

  TEST_CASE("a run that sends nothing fails, and so does a count that was not measured") {
    const auto silent = judge(100, {{"start.responses", 0}, {"start.bytes", 0}});
    REQUIRE(silent.size() == 2);
    CHECK(
        silent[1] ==
        "smi-100x10: start.responses fell from 500 to 0: nothing was measured, or the baseline is "
        "stale; rewrite it with --update-baseline");
    const auto missing = judge(100, {{"start.bytes", 100'000}});
    REQUIRE(missing.size() == 1);
    CHECK(missing[0] == "smi-100x10: start.responses was not measured; the baseline has 500");
    CHECK(judge(100, {}).size() == 2);
  }

  TEST_CASE("a count below half of the baseline says that the baseline is stale") {
    CHECK(judge(100, {{"start.responses", 250}, {"start.bytes", 50'000}}).empty());
    CHECK(judge(100, {{"start.responses", 249}, {"start.bytes", 49'999}}).size() == 2);
    const Baseline small{.counts = {{"m", {{"zero", 0}, {"one", 1}, {"three", 3}}}}};
    CHECK(regressions("m", {{"zero", 0}, {"one", 1}, {"three", 2}}, small).empty());
    CHECK(regressions("m", {{"zero", 0}, {"one", 0}, {"three", 1}}, small).size() == 2);
  }

  TEST_CASE("one response more fails") {
    const auto worse = judge(100, {{"start.responses", 501}, {"start.bytes", 100'000}});
    REQUIRE(worse.size() == 1);
    CHECK(worse[0] == "smi-100x10: start.responses rose from 500 to 501");
  }

  TEST_CASE("an added or removed Service has a limit that no new baseline lifts") {
    for (const char* what : {"added", "removed"}) {
      const std::string count = std::string("one_proxy_of_1000.delta.") + what + "_service.bytes";
      const Baseline raised{.counts = {{"m", {{count, 4097}}}}};
      CHECK(regressions("m", {{count, 4096}}, raised).empty());
      CHECK(regressions("m", {{count, 4097}}, raised) ==
            std::vector<std::string>{"m: " + count +
                                     " is 4097, above 4096, whatever the baseline says"});
    }
    const std::string first = "one_proxy_of_1000.delta.first.bytes";
    CHECK(regressions("m", {{first, 5000}}, {.counts = {{"m", {{first, 5000}}}}}).empty());
  }

  TEST_CASE("bytes may vary as signatures do, and no more") {
    CHECK(judge(100, {{"start.responses", 500}, {"start.bytes", 102'000}}).empty());
    CHECK(judge(100, {{"start.responses", 500}, {"start.bytes", 103'000}}).size() == 1);
  }

  TEST_CASE("a mesh or a count that the baseline does not know fails") {
    CHECK(judge(50, kCounts).size() == 1);
    auto more = kCounts;
    more["start.surprises"] = 1;
    CHECK(judge(100, more).size() == 1);
  }

  TEST_CASE("memory is judged where a thousand proxies tell it") {
    CHECK(judge(1000, kCounts, 24'999).empty());
    CHECK(judge(1000, kCounts, 25'001).size() == 1);
    CHECK(judge(100, kCounts, 200'000).empty());
  }

  TEST_CASE(
      "a baseline that was saved is read as it was; a missing or damaged one says what to do") {
    std::string path = (std::filesystem::temp_directory_path() / "baseline.XXXXXX").string();
    const int fd = mkstemp(path.data());
    REQUIRE(fd >= 0);
    close(fd);
    REQUIRE(save_baseline(path, baseline()));
    const auto loaded = load_baseline(path);
    REQUIRE(loaded);
    CHECK(loaded->counts == baseline().counts);
    CHECK(loaded->bytes_per_proxy_beyond_bare == 25'000);

    std::filesystem::resize_file(path, 20);
    REQUIRE_FALSE(load_baseline(path));
    CHECK(load_baseline(path).error().message.find("--update-baseline") != std::string::npos);
    std::filesystem::remove(path);
    CHECK(load_baseline(path).error().code == ErrorCode::kNotFound);
  }
}

}  // namespace osm::bench
