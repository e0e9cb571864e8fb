// Ids, results, digests and random numbers compare, print and fail as documented; misuse of a
// result and a wait on the executor's own thread are refused.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <memory>
#include <set>
#include <unordered_set>

#include "base/digest.hpp"
#include "base/may_wait.hpp"
#include "base/strand.hpp"
#include "lib/run.hpp"
#include "osm/ids.hpp"
#include "osm/result.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

TEST_SUITE("Digest") {
  TEST_CASE("a digest is the first 128 bits of SHA-256, in hex") {
    // FIPS 180-2, appendix B.1, and the empty message.
    CHECK(digest_of("abc").hex() == "ba7816bf8f01cfea414140de5dae2223");
    CHECK(digest_of("").hex() == "e3b0c44298fc1c149afbf4c8996fb924");
  }

  TEST_CASE("parts do not run into each other, nor is one kind taken for another") {
    std::set<Digest> seen;
    const auto distinct = [&](DigestBuilder& builder) {
      return seen.insert(builder.finish()).second;
    };
    DigestBuilder a, b, c, d, e, f, g;
    CHECK(distinct(a.add("ab").add("c")));
    CHECK(distinct(b.add("a").add("bc")));
    CHECK(distinct(c.add("abc")));
    CHECK(distinct(d.add("abc").add("")));
    // A text whose bytes look like a number's is no number after its length.
    CHECK(distinct(e.add(std::string_view("n\1\0\0\0\0\0\0\0", 9))));
    CHECK(distinct(f.add(std::uint64_t{9}).add(std::uint64_t{1})));
    CHECK(distinct(g.add(digest_of("abc"))));
  }

  TEST_CASE("equal parts give equal digests") {
    DigestBuilder a, b;
    CHECK(a.add("x").add(std::uint64_t{7}).add(digest_of("y")).finish() ==
          b.add("x").add(std::uint64_t{7}).add(digest_of("y")).finish());
  }
}

Result<int> half(int n) {
  if (n % 2 != 0) return Error{ErrorCode::kInvalidArgument, "odd"};
  return n / 2;
}

Result<std::string> quarter(int n) {
  OSM_TRY(const int once, half(n));
  OSM_TRY(const int twice, half(once));
  return std::to_string(twice);
}

// OSM_TRY with one argument.
Status all_even(int a, int b) {
  OSM_TRY(half(a).ok() ? Status() : Status(Error{ErrorCode::kInvalidArgument, "first"}));
  if (b != 0) OSM_TRY(all_even(b, 0));
  return {};
}

// Runs `body` in a process of its own. Result: the text on standard error if the process aborted.
template <class Body>
std::string abort_text(Body body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // doctest would report it as a failure of this test
    ::dup2(ends[1], STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char block[512];
  for (ssize_t got; (got = ::read(ends[0], block, sizeof block)) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? text : "no abort: " + text;
}

TEST_SUITE("Result") {
  TEST_CASE("OSM_TRY of a Status returns its error, also as the only statement of an if") {
    CHECK(all_even(2, 4).ok());
    CHECK(all_even(1, 2).error().message == "first");
    CHECK(all_even(2, 1).error().message == "first");
  }

  TEST_CASE("the value of an error ends the process with the error's text") {
    const Result<std::string> failed = Error{ErrorCode::kStorage, "disk full"};
    const std::string expected =
        "libosm: value() of a Result that holds an error: storage: disk full\n";
    CHECK(abort_text([&] { static_cast<void>(failed.value()); }) == expected);
    CHECK(abort_text([&] { static_cast<void>(*failed); }) == expected);
    CHECK(abort_text([&] { static_cast<void>(failed->size()); }) == expected);
    CHECK(abort_text([&] { static_cast<void>(Result(failed).value()); }) == expected);
  }

  TEST_CASE("the error of a success ends the process") {
    const std::string expected = "libosm: error() of a Result or Status without an error\n";
    CHECK(abort_text([] { static_cast<void>(Status().error()); }) == expected);
    CHECK(abort_text([] { static_cast<void>(half(2).error()); }) == expected);
  }

  TEST_CASE("a wait on the executor's own thread fails, or ends the process if it cannot fail") {
    testing::ManualClock clock;
    testing::ManualExecutor executor(clock);
    Strand strand(executor);
    CHECK(check_may_wait(executor, "f").ok());
    CHECK(check_may_wait(strand, "f").ok());
    Status of_executor;
    Status of_strand;
    std::string aborted;
    strand.post([&] {
      of_executor = check_may_wait(executor, "Thing::wait");
      of_strand = check_may_wait(strand, "Thing::wait");
      aborted = abort_text([&] { require_may_wait(strand, "Thing::wait"); });
    });
    executor.run_until_idle();
    const Error expected{ErrorCode::kInvalidArgument,
                         "Thing::wait: was called on a thread of the executor that it waits for; "
                         "call it on another thread, such as one of Runtime::blocking"};
    CHECK(of_executor.error() == expected);
    CHECK(of_strand.error() == expected);
    CHECK(aborted == "libosm: " + expected.message + '\n');
    CHECK(check_may_wait(executor, "f").ok());
  }

  TEST_CASE("OSM_TRY yields the value or returns the error of the first step that fails") {
    CHECK(*quarter(12) == "3");
    CHECK(quarter(6).error() == Error{ErrorCode::kInvalidArgument, "odd"});
    CHECK_FALSE(quarter(7).ok());
  }

  TEST_CASE("a move-only value can be carried and taken out") {
    const auto make = [](bool good) -> Result<std::unique_ptr<int>> {
      if (!good) return Error{ErrorCode::kNotFound, "none"};
      return std::make_unique<int>(5);
    };
    std::unique_ptr<int> taken = *make(true);
    CHECK(*taken == 5);
    CHECK(make(false).error().code == ErrorCode::kNotFound);
  }

  TEST_CASE("a Status is good unless it holds an error") {
    CHECK(Status().ok());
    const Status bad = Error{ErrorCode::kStorage, "disk full"};
    CHECK_FALSE(bad.ok());
    CHECK(bad.error().message == "disk full");
    CHECK(half(3).value_or(-1) == -1);
    CHECK(half(4).value_or(-1) == 2);
  }

  TEST_CASE("an error's text starts with its stable code, and context goes before the message") {
    const Error error{ErrorCode::kDanglingReference, "no such service"};
    CHECK(error.text() == "dangling-reference: no such service");
    CHECK(error.with_context("TrafficTarget a/b").text() ==
          "dangling-reference: TrafficTarget a/b: no such service");
  }

  TEST_CASE("every code has a text of its own, in kebab case") {
    std::set<std::string_view> texts;
    for (int i = 0; i <= static_cast<int>(ErrorCode::kInternal); ++i) {
      const std::string_view text = error_code_text(static_cast<ErrorCode>(i));
      CAPTURE(text);
      CHECK(texts.insert(text).second);
      CHECK_FALSE(text.empty());
      CHECK(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string_view::npos);
    }
  }
}

TEST_SUITE("ids") {
  TEST_CASE("namespaced names are ordered by namespace, then name, and print as namespace/name") {
    const ServiceName a{"a", "z"}, b{"b", "a"}, c{"b", "b"};
    CHECK(a < b);
    CHECK(b < c);
    CHECK(c.str() == "b/b");
    CHECK(ServiceName{}.empty());
  }

  TEST_CASE("ids hash by their text, names by both parts") {
    std::unordered_set<ServiceName> names{{"a", "b"}, {"b", "a"}, {"a", "b"}};
    CHECK(names.size() == 2);
    std::unordered_set<ProxyId> ids{ProxyId("x"), ProxyId("x"), ProxyId("y")};
    CHECK(ids.size() == 2);
  }

  TEST_CASE("a workload's SPIFFE id is its trust domain, namespace and account") {
    const TrustDomain domain("cluster.local");
    CHECK(spiffe_id(domain, {"bookstore", "v1"}).str() ==
          "spiffe://cluster.local/ns/bookstore/sa/v1");
    CHECK(spiffe_id(domain, {"bookstore", "v1"}).str().starts_with(workload_spiffe_prefix(domain)));
    CHECK(identity_of(ServiceAccount{"ns", "account"}) == ServiceIdentity{"ns", "account"});
  }
}

TEST_SUITE("RandomRng") {
  TEST_CASE("the same seed gives the same numbers, another seed others") {
    const std::uint64_t seed = testing::seed();
    RandomRng a(seed), b(seed), c(seed + 1);
    const auto first = a.next();
    CHECK(first == b.next());
    CHECK(first != c.next());
  }
}

}  // namespace
