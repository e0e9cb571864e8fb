#include "kubernetes/client/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include "base/descriptor.hpp"

namespace osm::inline v1::kubernetes {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kMaxOutputBytes = 1024 * 1024;

std::optional<std::string> find_command(const Program& program) {
  if (program.command.find('/') != std::string::npos)
    return ::access(program.command.c_str(), X_OK) == 0 ? std::optional(program.command)
                                                        : std::nullopt;
  const auto path = program.environment.find("PATH");
  if (path == program.environment.end()) return std::nullopt;
  std::istringstream directories(path->second);
  for (std::string directory; std::getline(directories, directory, ':');) {
    // Skip a relative entry: the program would depend on the host's working directory.
    if (!directory.starts_with('/')) continue;
    const std::string candidate = directory + '/' + program.command;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

// A null-terminated array of C strings that borrows from `texts`.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The new process leads its own process group, so that its children are killed with it. It inherits
// nothing but its output.
Result<pid_t> spawn(const Program& program, const std::string& file, int output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);

  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<std::string> arguments{program.command};
  arguments.insert(arguments.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> environment;
  for (const auto& [name, value] : program.environment) environment.push_back(name + '=' + value);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, file.c_str(), &actions, &attributes,
                                  pointers_to(arguments).data(), pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return Error{ErrorCode::kUnavailable, file + ": cannot be run: " + std::strerror(error)};
  return pid;
}

// A child that is killed, with its group, and reaped unless it ended before.
class Child {
 public:
  explicit Child(pid_t pid)
      : pid_(pid), ended_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  ~Child() {
    // Its children may still run and hold the output open.
    ::kill(-pid_, SIGKILL);
    if (!reaped_) ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int ended() const { return ended_.get(); }

  // Precondition: it has ended. nullopt: a host that ignores SIGCHLD has lost its status.
  std::optional<int> status() {
    int status = 0;
    // The group id is valid until here: kill the group before its leader is reaped.
    ::kill(-pid_, SIGKILL);
    reaped_ = true;
    return ::waitpid(pid_, &status, 0) == pid_ ? std::optional(status) : std::nullopt;
  }

 private:
  const pid_t pid_;
  const Descriptor ended_;
  bool reaped_ = false;
};

enum class End { kExit, kDeadline, kTooLarge };

// Reads until the program has ended. It does not wait for other processes that hold the output.
End read_output(const Child& child, Descriptor output, Steady::time_point deadline,
                std::string& text) {
  bool ended = child.ended() < 0;  // without pidfd, the end of the output counts
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now());
    if (left.count() <= 0) return End::kDeadline;
    pollfd waits[] = {{output.get(), POLLIN, 0}, {child.ended(), POLLIN, 0}};
    if (::poll(waits, 2, static_cast<int>(left.count())) < 0 && errno != EINTR) return End::kExit;
    if (waits[0].revents != 0) {
      char block[4096];
      const ssize_t got = ::read(output.get(), block, sizeof block);
      if (got > 0) {
        text.append(block, static_cast<std::size_t>(got));
        if (text.size() > kMaxOutputBytes) return End::kTooLarge;
        continue;
      }
      if (got == 0) {
        output.close();
        if (ended) return End::kExit;
      }
    }
    if (waits[1].revents != 0) return End::kExit;
  }
}

}  // namespace

Result<std::string> run_program(const Program& program) {
  const auto file = find_command(program);
  if (!file)
    return Error{ErrorCode::kNotFound,
                 program.command + ": there is no such program" +
                     (program.command.find('/') == std::string::npos ? " in PATH" : "")};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    return Error{ErrorCode::kUnavailable, std::string("pipe: ") + std::strerror(errno)};
  Descriptor output(ends[0]);
  Descriptor input(ends[1]);
  // The program expects a descriptor that blocks.
  ::fcntl(input.get(), F_SETFL, 0);
  OSM_TRY(const pid_t pid, spawn(program, *file, input.get()));
  input.close();

  Child child(pid);
  std::string text;
  switch (read_output(child, std::move(output), Steady::now() + program.deadline, text)) {
    case End::kDeadline:
      return Error{ErrorCode::kDeadlineExceeded, program.command + ": did not end within " +
                                                     std::to_string(program.deadline.count()) +
                                                     " ms and was killed"};
    case End::kTooLarge:
      return Error{ErrorCode::kTooLarge, program.command + ": printed more than 1 MiB"};
    case End::kExit:
      break;
  }
  const auto status = child.status();
  if (!status || (WIFEXITED(*status) && WEXITSTATUS(*status) == 0)) return text;
  return Error{
      ErrorCode::kUnavailable,
      program.command + (WIFEXITED(*status)
                             ? ": ended with " + std::to_string(WEXITSTATUS(*status))
                             : ": was ended by signal " + std::to_string(WTERMSIG(*status)))};
}

}  // namespace osm::inline v1::kubernetes
