#include "process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace osm::daemon {

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string replica_name(Rng& rng) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}-{:016x}", host.data(), rng.next());
}

sigset_t block_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM);
  sigaddset(&awaited, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &awaited, nullptr);
  return awaited;
}

const char* wait_for_signal(const sigset_t& awaited) {
  int number = 0;
  while (::sigwait(&awaited, &number) != 0) {
  }
  ::pthread_sigmask(SIG_UNBLOCK, &awaited, nullptr);
  return number == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace osm::daemon
