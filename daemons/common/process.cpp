#include "process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

namespace osm::daemon {
namespace {

// From a signal until a daemon that is starting has ended.
constexpr std::chrono::seconds kTimeToEnd{1};

}  // namespace

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

void raise_descriptor_limit() {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = descriptors.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &descriptors);  // a failure leaves the soft limit
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

EndSignal::EndSignal() {
  const sigset_t awaited = block_signals();
  listener_ = std::thread([this, awaited] { listen(awaited); });
}

EndSignal::~EndSignal() {
  std::unique_lock lock(mutex_);
  over_ = true;
  const bool listens = number_ == 0;
  lock.unlock();
  changed_.notify_all();
  if (listens) ::pthread_kill(listener_.native_handle(), SIGTERM);  // ends its wait
  listener_.join();
}

void EndSignal::listen(const sigset_t& awaited) {
  int number = 0;
  while (::sigwait(&awaited, &number) != 0) {
  }
  std::unique_lock lock(mutex_);
  if (over_) return;
  number_ = number;
  changed_.notify_all();
  // A thread has to take the next signal, which ends the process.
  ::pthread_sigmask(SIG_UNBLOCK, &awaited, nullptr);
  const auto may_take_time = [this] { return over_ || !before_; };
  if (!changed_.wait_for(lock, kTimeToEnd, may_take_time)) {
    before_();
    std::_Exit(0);
  }
  changed_.wait(lock, [this] { return over_; });
}

const char* EndSignal::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return number_ != 0; });
  return number_ == SIGINT ? "SIGINT" : "SIGTERM";
}

bool EndSignal::wait_for(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return number_ != 0; });
}

void EndSignal::exit_soon(std::function<void()> before) {
  const std::lock_guard lock(mutex_);
  before_ = std::move(before);
  changed_.notify_all();
}

}  // namespace osm::daemon
