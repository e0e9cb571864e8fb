// The parts of a program that runs a mesh, alone.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/host/audit_file.hpp"
#include "osm/host/health.hpp"
#include "osm/host/stale_replica.hpp"
#include "osm/host/start.hpp"
#include "osm/host/state_dir.hpp"
#include "osm/net/http.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace {

void expect(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "host: not so: %s\n", what.c_str());
  std::exit(1);
}

// A part that waits for `missing`; empty: for nothing.
class Part final : public osm::host::Monitored {
 public:
  explicit Part(std::vector<std::string> missing) : missing_(std::move(missing)) {}
  std::vector<std::string> missing() const override { return missing_; }
  std::vector<osm::Problem> problems() const override { return {}; }

 private:
  const std::vector<std::string> missing_;
};

int ready(const osm::host::Health& health) {
  const auto answer = osm::net::http_call({.address = health.address(), .target = "/health/ready"});
  expect(answer.ok(), "health answers");
  return answer->status;
}

// A directory for this run.
std::string folder() {
  std::string name = "/tmp/osm-host-XXXXXX";
  expect(::mkdtemp(name.data()) != nullptr, "a directory is made");
  return name;
}

}  // namespace

int main() {
  namespace host = osm::host;
  const std::string directory = folder();
  osm::OwnRuntime runtime({.least = osm::LogLevel::kError});

  const std::string path = directory + "/issued.json";
  const auto audit = host::open_audit_file({.path = path, .runtime = runtime});
  expect(audit.ok(), "an audit log is opened");
  (*audit)->issued(osm::certificate::Certificate(), {});
  expect(!(*audit)->problem(), "a record is written");
  ::unlink(path.c_str());

  const auto state = host::StateDir::lock({.path = directory});
  expect(state.ok(), "the directory is locked");
  expect(!host::StateDir::lock({.path = directory}).ok(), "it is locked once");
  ::unlink(state->file("lock").c_str());

  host::Start start(runtime, [](auto) { return true; });
  const osm::Status away = osm::Error{osm::ErrorCode::kUnavailable, "nobody answers"};
  const Part mesh({});
  const auto health = host::Health::start(
      {.address = {"127.0.0.1", 0}, .runtime = runtime, .start = start, .version = "1.2"});
  expect(health.ok(), "health is served");
  const auto waited = start.wait_for("its CA", [&] {
    expect(ready(**health) == 503, "a program that starts is not ready");
    return away;
  });
  expect(!waited.ok(), "a start ends when the program is to end");
  const auto followed = (*health)->follow(mesh);
  expect(ready(**health) == 200, "a program that serves is ready");

  const auto guard =
      host::StaleReplicaGuard::start({.board = nullptr, .replica = "a", .runtime = runtime});
  expect(guard.ok() && (*guard)->admits().ok(), "a replica that is alone is not stale");

  ::rmdir(directory.c_str());
  std::puts("host: ok");
}
