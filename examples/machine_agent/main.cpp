// A vendor's agent of a machine: it joins the mesh by a token, keeps the certificate of the
// machine's proxy current, and leaves the mesh when the machine is taken away.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "osm/machine/join.hpp"
#include "osm/machine/leave.hpp"
#include "osm/machine/renew.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "osm/runtime/system.hpp"

namespace {

int fail(const osm::Error& error) { return std::cerr << error.text() << '\n', 1; }

// Root asks as the proxy's user: interception redirects all other traffic into the mesh.
bool is_root() { return ::geteuid() == 0; }

osm::Status join(const std::string& directory, const std::string& token_file) {
  std::ifstream file(token_file);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  OSM_TRY(auto token, osm::machine::decode_join_token(std::move(text), token_file));
  const osm::machine::JoinOptions options{
      .token = std::move(token), .proxy = {.directory = directory}, .as_proxy_user = is_root()};
  osm::OwnRuntime threads;
  OSM_TRY(const auto joined, osm::machine::join(options, {threads.asio(), threads.blocking}));
  std::cout << "joined as proxy " << joined.uuid << std::endl;
  return {};
}

// Until a signal: checks the certificate every ten minutes, sooner after a failure.
void keep_current(const std::string& directory, const sigset_t& signals) {
  const osm::SystemClock clock;
  osm::RandomRng rng;
  osm::machine::RenewalPace pace(std::chrono::minutes(10), rng);
  timespec pause{};
  do {
    const auto checked =
        osm::machine::renew({.directory = directory, .as_proxy_user = is_root()}, clock);
    if (checked.ok())
      std::cout << osm::machine::renewal_text(checked->renewal) << std::endl;
    else
      fail(checked.error());
    const auto next = pace.pause_after(checked.ok());
    pause.tv_sec = std::chrono::floor<std::chrono::seconds>(next).count();
    pause.tv_nsec = (next % std::chrono::seconds(1)).count();
  } while (sigtimedwait(&signals, nullptr, &pause) < 0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 2 ? argv[1] : "";
  if (argc != (command == "run" ? 4 : 3) || (command != "run" && command != "leave"))
    return std::cerr << "usage: machine_agent run DIRECTORY TOKEN_FILE | leave DIRECTORY\n", 2;
  const std::string directory = std::filesystem::absolute(argv[2]);
  if (command == "leave") {
    const auto left = osm::machine::leave(
        {.drain = {.directory = directory, .as_proxy_user = true}}, osm::SystemClock());
    return left.ok() ? 0 : fail(left.error());
  }
  sigset_t signals;  // Ctrl-C and SIGTERM end it; the library handles no signals
  for (sigemptyset(&signals); const int s : {SIGINT, SIGTERM}) sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (!std::filesystem::exists(directory + "/bootstrap.yaml")) {
    const auto joined = join(directory, argv[3]);
    if (!joined.ok()) return fail(joined.error());
  }
  keep_current(directory, signals);
}
