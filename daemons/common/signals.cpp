#include "signals.hpp"

namespace osm::daemon {

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
