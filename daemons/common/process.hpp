// The process that a daemon is: its environment, its limit of descriptors, and the signals that
// end it.
#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace osm::daemon {

// The environment, which the library never reads by itself.
std::map<std::string, std::string> environment();

// Raises the soft limit of descriptors to the hard one. Thread: the main one, at the start.
void raise_descriptor_limit();

// Blocks SIGTERM and SIGINT in this thread and all it starts, so that no handler ever runs; ignores
// SIGPIPE. Before any other thread is started.
sigset_t block_signals();

// SIGTERM and SIGINT, which ask a daemon to end. After the first one, another one ends the process
// at once.
class EndSignal {
 public:
  // Thread: the main one, before any other is started.
  EndSignal();
  ~EndSignal();
  EndSignal(const EndSignal&) = delete;

  // Result: "SIGTERM" or "SIGINT". Blocking: until one has come. Thread: the main one.
  const char* wait();

  // Result: true if one has come. Thread: any. Blocking: up to `timeout`, until one comes.
  bool wait_for(std::chrono::nanoseconds timeout);

  // While a function is set, the process has a second to end after a signal. Then the function is
  // called, and the process ends with exit code 0. Null: it may take its time. Thread: any.
  void exit_soon(std::function<void()> before);

 private:
  void listen(const sigset_t& awaited);

  std::mutex mutex_;
  std::condition_variable changed_;
  int number_ = 0;                // guarded by mutex_, as the next two; 0: none has come
  bool over_ = false;             // nobody waits any more
  std::function<void()> before_;  // of exit_soon()
  std::thread listener_;
};

}  // namespace osm::daemon
