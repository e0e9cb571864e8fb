// Health, metrics and version are those of the start, then of the part that is followed.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "osm/host/health.hpp"
#include "osm/net/http.hpp"

using namespace osm;

namespace {

struct Part final : host::Monitored {
  std::vector<std::string> missing() const override { return missing_; }
  std::vector<Problem> problems() const override { return problems_; }
  std::vector<std::string> hanging() const override { return hanging_; }
  std::optional<host::MeshVersion> mesh() const override { return mesh_; }

  std::vector<std::string> missing_{};
  std::vector<Problem> problems_{};
  std::vector<std::string> hanging_{};
  std::optional<host::MeshVersion> mesh_{};
};

Problem silent_ca() {
  Problem problem;
  problem.code = ErrorCode::kUnavailable;
  problem.path = host::kAuthority;
  problem.cause = "no answer";
  return problem;
}

struct Fixture {
  OwnRuntime runtime{{.least = LogLevel::kError}};
  Part start, part;
  std::unique_ptr<host::Health> health;

  Fixture() {
    start.missing_ = {"its CA"};
    auto served = host::Health::start({.address = {"127.0.0.1", 0},
                                       .runtime = runtime,
                                       .start = start,
                                       .version = "1.2",
                                       .commit = "abc"});
    REQUIRE(served.ok());
    health = std::move(*served);
  }
  net::Response ask(const std::string& target) const {
    auto answer = net::http_call({.address = health->address(), .target = target});
    REQUIRE(answer.ok());
    return *std::move(answer);
  }
  bool has_metric(const std::string& line) const {
    return ask("/metrics").body.find(line) != std::string::npos;
  }
};

}  // namespace

TEST_SUITE("host::Health") {
  TEST_CASE_FIXTURE(Fixture, "a program that starts is alive, and not ready with its reason") {
    CHECK(ask("/health/alive").body == "Service is alive\n");
    const auto answer = ask("/health/ready");
    CHECK(answer.status == 503);
    CHECK(answer.body == "Service is not ready. Waiting for:\n- its CA\n");
    CHECK(ask("/version").body ==
          "{\"version\":\"1.2\",\"commit\":\"abc\",\"envoy_api\":\"v3\"}\n");
    CHECK(has_metric("osm_version_info{git_commit=\"abc\",version=\"1.2\"} 1\n"));
  }

  TEST_CASE_FIXTURE(Fixture, "the part that is followed is asked until the handle's end") {
    part.mesh_ = host::MeshVersion{"a-1", 7, "f00d", false, true};
    {
      const auto followed = health->follow(part);
      CHECK(ask("/health/ready").body == "Service is ready\n");
      const std::string version = ask("/version").body;
      CHECK(version.find("\"replica\":\"a-1\",\"generation\":7,\"mesh_hash\":\"f00d\","
                         "\"stale\":false,\"admits\":true") != std::string::npos);
      CHECK(has_metric("osm_mesh_info{hash=\"f00d\"} 1\n"));
    }
    CHECK(ask("/health/ready").status == 503);
    CHECK_FALSE(has_metric("osm_mesh_info"));
  }

  TEST_CASE_FIXTURE(Fixture, "the end of an earlier handle leaves the later part followed") {
    auto earlier = health->follow(start);
    const auto later = health->follow(part);
    earlier.reset();
    CHECK(ask("/health/ready").status == 200);
  }

  TEST_CASE_FIXTURE(Fixture, "a part that hangs is not alive") {
    part.hanging_ = {"the mesh"};
    const auto followed = health->follow(part);
    const auto answer = ask("/health/alive");
    CHECK(answer.status == 503);
    CHECK(answer.body == "Service hangs:\n- the mesh\n");
  }

  TEST_CASE_FIXTURE(Fixture, "a silent CA is a problem, and readiness goes on") {
    part.problems_ = {silent_ca()};
    auto followed = health->follow(part);
    const auto answer = ask("/health/ready");
    CHECK(answer.status == 200);
    CHECK(answer.body == "Service is ready\n- in spite of " + silent_ca().text() + '\n');
    CHECK(has_metric("file=\"certificate authority\""));
    followed.reset();
    CHECK_FALSE(has_metric("osm_problem{"));
  }

  TEST_CASE_FIXTURE(Fixture, "answers are counted, and unknown paths share one label") {
    ask("/health/alive");
    ask("/no-such-path");
    CHECK(has_metric("osm_http_response_total{code=\"200\",path=\"/health/alive\"} 1\n"));
    CHECK(has_metric("osm_http_response_total{code=\"404\",path=\"other\"} 1\n"));
    CHECK(has_metric("process_open_fds "));
  }
}
