#include "osm/machine/leave.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "machine/drain.hpp"
#include "machine/proxy_files.hpp"

namespace osm::inline v1::machine {
namespace {

// Starts a program with these arguments, without its standard output. `name`: in errors. `open`: a
// descriptor that the program has, too; -1: none. Failure: kStorage.
Result<pid_t> start(const std::vector<std::string>& command, const std::string& name, int open) {
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (open >= 0) ::posix_spawn_file_actions_adddup2(&actions, open, open);  // not closed by exec
  posix_spawnattr_t attributes;  // the program does not block the signals that this thread does
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, arguments.front(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return child;
  return Error{ErrorCode::kStorage, name + ": " + std::generic_category().message(failed)};
}

// Waits for a program. Result: true if it ended with 0. Failure: kStorage: its status is lost.
Result<bool> await(pid_t child, const std::string& name) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  if (ended == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return Error{ErrorCode::kStorage, name +
                                        ": its exit status is lost; does this process ignore "
                                        "SIGCHLD? Repeat this command"};
}

// Runs a program, as start(). Failure: kStorage, also if it does not end with 0.
Status run(const std::vector<std::string>& command, const std::string& name, int open = -1) {
  OSM_TRY(const pid_t child, start(command, name, open));
  OSM_TRY(const bool succeeded, await(child, name));
  if (succeeded) return {};
  return Error{ErrorCode::kStorage, name + " failed; its messages are above. Repeat this command"};
}

// True if nobody but root can have written it, or can do so while it is used.
bool is_roots_alone(int fd, mode_t type) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == type && status.st_uid == 0 &&
         (status.st_mode & 022) == 0;
}

// The open file intercept.sh of the directory: minutes may pass until it is run, and then another
// file may have its name. Failure: kPermissionDenied: somebody else than root may have written what
// root would run, or put it there.
Result<Descriptor> open_script(const std::string& directory) {
  const std::string path = directory + "/intercept.sh";
  const Descriptor place(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Descriptor script(
      place ? ::openat(place.get(), "intercept.sh", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
            : -1);
  if (!script && errno != ELOOP)
    return Error{ErrorCode::kStorage,
                 path + ": " + std::generic_category().message(errno) +
                     "; is --dir the directory that `osm vm join` or `osm vm bootstrap` wrote? If "
                     "it is, remove the iptables chains of the mesh by hand, and delete it"};
  if (!is_roots_alone(place.get(), S_IFDIR))
    return Error{ErrorCode::kPermissionDenied,
                 directory +
                     ": is not root's alone, so its intercept.sh is not run; check that, and "
                     "`chown root` and `chmod 755` the directory"};
  if (script && is_roots_alone(script.get(), S_IFREG)) return script;
  return Error{ErrorCode::kPermissionDenied,
               path +
                   ": is not root's alone, so it is not run; check it, and `chown root` and "
                   "`chmod 700` it"};
}

// Result: the steps that systemd did; empty: it does not run this machine's units.
Result<std::vector<std::string>> stop_units(const std::string& directory) {
  std::vector<std::string> done;
  std::error_code ignored;
  if (!std::filesystem::exists("/run/systemd/system", ignored)) return done;
  const std::filesystem::path path(directory);
  if (path.parent_path() != "/etc/osm") return done;  // the units look nowhere else
  const std::string name = path.filename().string();
  const std::string timer = "osm-renew@" + name + ".timer";
  const std::string intercept = "osm-intercept@" + name + ".service";
  const std::string envoy = "osm-envoy@" + name + ".service";
  const std::string systemctl = "systemctl";
  const auto asked = start({systemctl, "is-active", "--quiet", intercept}, systemctl, -1);
  if (!asked.ok()) return done;
  OSM_TRY(const bool active, await(*asked, systemctl));
  if (!active) return done;
  OSM_TRY(run({systemctl, "disable", "--now", timer, intercept, envoy}, systemctl));
  return std::vector{timer, intercept, envoy};
}

}  // namespace

Result<LeaveResult> leave(const LeaveOptions& options, const Clock& clock) {
  const std::string& directory = options.drain.directory;
  if (::geteuid() != 0)
    return Error{ErrorCode::kPermissionDenied, "osm vm leave removes interception: run it as root"};
  OSM_TRY(const ProxyFilesLock lock, ProxyFilesLock::take(directory));
  OSM_TRY(const Descriptor script, open_script(directory));
  auto files = lock.read();
  const Status drained =
      files.ok() ? drain_self(*std::move(files), options.drain, clock) : Status(files.error());
  if (!drained.ok() && !options.force) return drained.error();
  if (drained.ok())
    std::this_thread::sleep_for(options.grace);  // requests under way, and other controllers
  else if (options.on_not_drained)
    options.on_not_drained(drained.error());
  LeaveResult left{.drained = drained.ok()};
  OSM_TRY(left.units, stop_units(directory));
  OSM_TRY(run({"/proc/self/fd/" + std::to_string(script.get()), "--remove"},
              directory + "/intercept.sh", script.get()));
  OSM_TRY(left.directory_deleted, lock.remove_all());
  return left;
}

}  // namespace osm::inline v1::machine
