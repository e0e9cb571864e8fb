// The parts of a program that runs a mesh, alone.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/host/audit_file.hpp"
#include "osm/host/state_dir.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace {

void expect(bool truth, const std::string& what) {
  if (truth) return;
  std::fprintf(stderr, "host: not so: %s\n", what.c_str());
  std::exit(1);
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
  const osm::OwnRuntime runtime({.least = osm::LogLevel::kError});

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

  ::rmdir(directory.c_str());
  std::puts("host: ok");
}
