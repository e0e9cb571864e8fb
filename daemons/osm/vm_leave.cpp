// `osm vm leave`: a machine leaves the mesh: drained, without interception, without its files.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "command.hpp"
#include "machine_files.hpp"
#include "osm/runtime/system.hpp"
#include "proxy_user.hpp"
#include "renewal_client.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPollLeave{200};
constexpr milliseconds kQuestion{10'000};  // longest wait for one answer

struct LeaveOptions {
  std::string directory;
  std::string controller;  // HOST:PORT; empty: as the bootstrap says
  milliseconds timeout{60'000};
  milliseconds grace{15'000};
  bool force = false;
};

Error behind(const DrainResponse& told) {
  std::string names;
  for (const std::string& name : told.behind()) names += (names.empty() ? ": " : ", ") + name;
  return {ErrorCode::kDeadlineExceeded,
          std::to_string(told.acknowledged()) + " of " + std::to_string(told.concerned()) +
              " proxies have acknowledged in time that this machine is drained; behind" + names +
              ". Repeat the command, or leave with --force"};
}

// Asks until every proxy of the controller has acknowledged. Failure: kDeadlineExceeded, naming
// proxies; the controller's.
Status drain_self(const ProxyFiles& files, const LeaveOptions& options) {
  if (files.not_after <= SystemClock().wall_now())
    return Error{ErrorCode::kCertificateExpired,
                 options.directory +
                     "/sds_cert.pem has ended, so the controller answers nothing: run `osm vm "
                     "drain` on the controller's side, and then this command with --force"};
  const auto deadline = steady_clock::now() + options.timeout;
  for (;;) {
    const auto told = [&] {
      const AsProxyUser user(files);
      return ask_to_drain(files, std::min(options.timeout, kQuestion));
    }();
    if (told.ok() && told->applied()) return {};
    if (!told.ok() && !may_pass(told.error())) return told.error();
    if (steady_clock::now() >= deadline) return told.ok() ? behind(*told) : told.error();
    std::this_thread::sleep_for(kPollLeave);
  }
}

// Runs a program with these arguments, without its standard output. `name`: in errors. `open`: a
// descriptor that the program has, too; -1: none. Failure: kStorage.
Status run(const std::vector<std::string>& command, const std::string& name, int open = -1) {
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (open >= 0) ::posix_spawn_file_actions_adddup2(&actions, open, open);  // not closed by exec
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0)
    return Error{ErrorCode::kStorage, name + ": " + std::generic_category().message(failed)};
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
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
Result<json::array> stop_units(const std::string& directory) {
  json::array done;
  std::error_code ignored;
  if (!std::filesystem::exists("/run/systemd/system", ignored)) return done;
  const std::filesystem::path path(directory);
  if (path.parent_path() != "/etc/osm") return done;  // the units look nowhere else
  const std::string name = path.filename().string();
  const std::string timer = "osm-renew@" + name + ".timer";
  const std::string intercept = "osm-intercept@" + name + ".service";
  const std::string envoy = "osm-envoy@" + name + ".service";
  const std::string systemctl = "systemctl";
  if (!run({systemctl, "is-active", "--quiet", intercept}, systemctl).ok()) return done;
  OSM_TRY(run({systemctl, "disable", "--now", timer, intercept, envoy}, systemctl));
  for (const std::string& unit : {timer, intercept, envoy}) done.emplace_back(unit);
  return done;
}

Result<json::value> leave(const LeaveOptions& options) {
  if (::geteuid() != 0)
    return Error{ErrorCode::kPermissionDenied, "osm vm leave removes interception: run it as root"};
  OSM_TRY(const ProxyFilesLock lock, ProxyFilesLock::take(options.directory));
  OSM_TRY(const Descriptor script, open_script(options.directory));
  auto files = lock.read();
  if (files.ok() && !options.controller.empty()) files->controller = options.controller;
  const Status drained = files.ok() ? drain_self(*files, options) : Status(files.error());
  if (!drained.ok() && !options.force) return drained.error();
  if (!drained.ok())
    std::cerr << "osm: " << printable(drained.error().message) << ". --force goes on\n";
  else
    std::this_thread::sleep_for(options.grace);  // requests under way, and other controllers
  OSM_TRY(json::array units, stop_units(options.directory));
  OSM_TRY(run({"/proc/self/fd/" + std::to_string(script.get()), "--remove"},
              options.directory + "/intercept.sh", script.get()));
  OSM_TRY(const bool directory_gone, lock.remove_all());
  return json::value{{"directory", options.directory},
                     {"drained", drained.ok()},
                     {"units", std::move(units)},
                     {"directory_deleted", directory_gone}};
}

std::string show_left(const json::value& left) {
  const std::string directory = text_at(left, "directory");
  std::string out = bool_at(left, "drained").value_or(false)
                        ? "Drained: no client sends requests here.\n"
                        : "Not drained: clients may still send requests here.\n";
  out += "Removed interception, and the key and the other files of " + directory + ".\n";
  if (!bool_at(left, "directory_deleted").value_or(false))
    out += "The directory has other files, which stay.\n";
  for (const json::value& unit : list_at(left, "units"))
    out += "Disabled and stopped " + std::string(unit.as_string()) + ".\n";
  out += "\nStill to do:\n";
  if (list_at(left, "units").empty())
    out += "  stop Envoy, and `osm vm renew --every` if it runs\n";
  return out +
         "  sed -i '/^# Begin of the names of the mesh/,/^# End of the names of the mesh/d' "
         "/etc/hosts\n"
         "  delete the machine's VirtualMachine from the mesh\n";
}

}  // namespace

void add_vm_leave(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<LeaveOptions>();
  CLI::App* app = vm.add_subcommand(
      "leave",
      "On the machine, as root: leave the mesh: drain the machine, remove interception, and\n"
      "delete the machine's files");
  app->footer(
      "Example:\n  osm vm leave --dir /etc/osm/web-1\n\nExit codes: 0 left; 5 not drained in time; "
      "of any other than 0 see the message");
  app->add_option("--dir", options->directory,
                  "Directory that `osm vm bootstrap` or `osm vm join` wrote")
      ->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server (default: from the bootstrap)");
  app->add_flag("--force", options->force, "Leave also if the machine cannot be drained");
  add_time(*app, "--timeout", options->timeout, "Longest wait for the controller and the proxies");
  add_time(*app, "--grace", options->grace,
           "Time for requests that are under way, after the machine is drained");
  add_output(*app, flags);
  app->callback([&flags, options] {
    options->directory = absolute(options->directory);
    flags.exit_code = print(flags, leave(*options), show_left);
  });
}

}  // namespace osm::cli
