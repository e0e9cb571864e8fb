// The library of a machine's agent, alone: a token, and a machine that has no files yet.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "osm/machine/bootstrap.hpp"
#include "osm/machine/files.hpp"
#include "osm/machine/join.hpp"
#include "osm/machine/leave.hpp"
#include "osm/machine/renew.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/system.hpp"

namespace {

void expect(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "agent: not so: %s\n", what.c_str());
  std::exit(1);
}

template <class Result>
void expect_failure(const Result& result, osm::ErrorCode code, const std::string& why) {
  expect(!result.ok(), why);
  expect(result.error().code == code, why + ", but: " + result.error().text());
}

}  // namespace

int main() {
  namespace machine = osm::machine;
  const auto token = machine::decode_join_token(
      machine::encode_join_token({"id", "secret", "127.0.0.1:1", "join", "127.0.0.1:2", "roots"}),
      "the text");
  expect(token.ok() && token->join == "127.0.0.1:1", "a token reads back");

  const osm::OwnRuntime threads({.least = osm::LogLevel::kError});
  const auto joined = machine::join(
      {.token = *token, .proxy = {.directory = "nowhere"}, .timeout = std::chrono::seconds(5)},
      {threads.asio(), threads.blocking});
  expect_failure(joined, osm::ErrorCode::kUnavailable, "nobody answers at that address");

  const osm::SystemClock clock;
  using osm::ErrorCode;
  expect_failure(machine::renew({.directory = "nowhere"}, clock), ErrorCode::kStorage,
                 "there are no files");
  expect_failure(machine::drain({.directory = "nowhere"}, clock), ErrorCode::kStorage,
                 "there is nothing to drain");
  expect_failure(machine::leave({.drain = {.directory = "nowhere"}}, clock),
                 ::geteuid() == 0 ? ErrorCode::kStorage : ErrorCode::kPermissionDenied,
                 "there is nothing to leave");
  expect_failure(machine::write_files({"nowhere", {}}, osm::certificate::PrivateKey(), {}),
                 ErrorCode::kStorage, "files are written into a directory that exists");
  const auto refused = [] { return osm::Error{osm::ErrorCode::kNotFound, "no such machine"}; };
  const auto bootstrapped = machine::bootstrap(
      {.machine = {"shop", "web-1"},
       .controller = "127.0.0.1:2",
       .proxy = {.directory = "nowhere"}},
      {.subject = [&]() -> osm::Result<std::string> { return refused(); },
       .bootstrap = [&](const std::string&) -> osm::Result<std::string> { return refused(); }});
  expect_failure(bootstrapped, ErrorCode::kNotFound, "a failure of a request is the caller's own");

  osm::RandomRng rng(1);
  machine::RenewalPace pace(std::chrono::minutes(10), rng);
  expect(pace.pause_after(false) <= std::chrono::seconds(1), "a failure is followed soon");
  std::puts("agent: ok");
}
