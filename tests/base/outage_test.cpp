// A short outage is no problem, a refusal is one at once, and an outage has two lines in the log.
#include "base/outage.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;

const Error kAway{ErrorCode::kUnavailable, "connection refused"};
const Error kSilent{ErrorCode::kDeadlineExceeded, "no answer"};
const Error kRefused{ErrorCode::kPermissionDenied, "forbidden"};

struct Fixture {
  osm::testing::ManualClock clock;
  std::vector<std::string> log;
  Outage<std::string> outage{
      clock, [this](const std::string* began) { log.push_back(began ? *began : "ended"); }};

  void fail(const Error& error) { outage.fail(error.code, "source: " + error.message); }
  std::string problem() const { return outage.problem().value_or(""); }
};

using Lines = std::vector<std::string>;

TEST_SUITE("Outage") {
  TEST_CASE_FIXTURE(Fixture, "failures for less than 5 s are no problem") {
    CHECK_FALSE(outage.failing());
    fail(kAway);
    CHECK(outage.failing());
    clock.advance(5s - 1ms);
    fail(kAway);
    CHECK(problem().empty());
    outage.end();
    CHECK_FALSE(outage.failing());
    clock.advance(1h);
    fail(kAway);
    CHECK(problem().empty());
    CHECK_FALSE(outage.take_news());
    CHECK(log.empty());
  }

  TEST_CASE_FIXTURE(Fixture, "the failure 5 s after the first one is a problem, with its cause") {
    fail(kAway);
    clock.advance(5s);
    CHECK(problem().empty());
    fail(kSilent);
    CHECK(problem() == "source: no answer");
  }

  TEST_CASE_FIXTURE(Fixture, "an owner with a timer shows the last failure without another one") {
    fail(kAway);
    fail(kSilent);
    outage.show();
    CHECK(problem() == "source: no answer");
  }

  TEST_CASE_FIXTURE(Fixture, "a refusal is a problem at once") {
    fail(kRefused);
    CHECK(problem() == "source: forbidden");
    CHECK(log == Lines{"source: forbidden"});
  }

  TEST_CASE_FIXTURE(Fixture, "without patience, each failure is a problem at once") {
    Outage<std::string> impatient(clock, nullptr, 0s);
    impatient.fail(ErrorCode::kUnavailable, "away");
    CHECK(impatient.problem() == "away");
    impatient.end();
    CHECK_FALSE(impatient.problem());
  }

  TEST_CASE_FIXTURE(Fixture, "an outage has one line in the log, and its end has one") {
    fail(kAway);
    clock.advance(5s);
    for (const Error& error : {kAway, kAway, kSilent, kRefused, kAway}) fail(error);
    CHECK(log == Lines{"source: connection refused"});
    outage.end();
    outage.end();
    CHECK(log == Lines{"source: connection refused", "ended"});
    CHECK(problem().empty());
  }

  TEST_CASE_FIXTURE(Fixture, "news are told once for each change of the problem") {
    CHECK_FALSE(outage.take_news());
    fail(kRefused);
    CHECK(outage.take_news());
    fail(kRefused);
    CHECK_FALSE(outage.take_news());
    clock.advance(5s);
    fail(kAway);
    CHECK(outage.take_news());
    outage.end();
    CHECK(outage.take_news());
    outage.end();
    CHECK_FALSE(outage.take_news());
  }

  TEST_CASE_FIXTURE(Fixture, "the time of an outage runs from its first failure to its end") {
    CHECK(outage.lasted() == 0s);
    fail(kAway);
    clock.advance(2s);
    fail(kAway);
    clock.advance(2s);
    CHECK(outage.lasted() == 4s);
    outage.end();
    clock.advance(2s);
    CHECK(outage.lasted() == 0s);
  }

  TEST_CASE_FIXTURE(Fixture, "another fault takes the place of an outage, which begins anew then") {
    fail(kAway);
    outage.end("missing");
    CHECK(problem() == "missing");
    CHECK(log == Lines{"missing"});
    CHECK_FALSE(outage.failing());
    clock.advance(5s);
    fail(kAway);
    CHECK(problem() == "missing");
    clock.advance(5s);
    fail(kAway);
    CHECK(problem() == "source: connection refused");
    outage.end();
    CHECK(log == Lines{"missing", "ended"});
  }

  TEST_CASE_FIXTURE(Fixture, "an outage that is forgotten ends without a line") {
    fail(kRefused);
    outage.forget();
    CHECK_FALSE(outage.failing());
    CHECK(problem().empty());
    outage.end();
    CHECK(log == Lines{"source: forbidden"});
  }

  TEST_CASE("the cause tells what an outage means for the mesh") {
    CHECK(cause_of_outage(kAway, true) == "connection refused; what was last read stays in force");
    CHECK(cause_of_outage(kAway, false) ==
          "connection refused; the mesh is not ready until it can be read");
  }
}

}  // namespace
