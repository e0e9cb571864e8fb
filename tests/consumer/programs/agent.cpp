// The library of a machine's agent, alone: a token, and a machine that has no files yet.
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
  expect(!joined.ok(), "nobody answers at that address");

  const osm::SystemClock clock;
  const auto renewed = machine::renew({.directory = "nowhere"}, clock);
  expect(!renewed.ok() && renewed.error().code == osm::ErrorCode::kStorage, "there are no files");
  expect(!machine::drain({.directory = "nowhere"}, clock).ok(), "nothing to drain");
  expect(!machine::leave({.drain = {.directory = "nowhere"}}, clock).ok(), "nothing to leave");
  expect(!machine::write_files({"nowhere", {}}, osm::certificate::PrivateKey(), {}).ok(),
         "files are written into a directory that exists");
  const auto refused = [] { return osm::Error{osm::ErrorCode::kNotFound, "no such machine"}; };
  const auto bootstrapped = machine::bootstrap(
      {.machine = {"shop", "web-1"},
       .controller = "127.0.0.1:2",
       .proxy = {.directory = "nowhere"}},
      {.subject = [&]() -> osm::Result<std::string> { return refused(); },
       .bootstrap = [&](const std::string&) -> osm::Result<std::string> { return refused(); }});
  expect(!bootstrapped.ok() && bootstrapped.error().code == osm::ErrorCode::kNotFound,
         "a failure of a request is the caller's own");

  osm::RandomRng rng(1);
  machine::RenewalPace pace(std::chrono::minutes(10), rng);
  expect(pace.pause_after(false) <= std::chrono::seconds(1), "a failure is followed soon");
  std::puts("agent: ok");
}
