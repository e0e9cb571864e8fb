// `osm vm leave`: a machine leaves the mesh: drained, without interception, without its files.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "base/json.hpp"
#include "machine/commands.hpp"
#include "osm/machine/leave.hpp"
#include "osm/runtime/system.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

void tell_not_drained(const Error& error) {
  std::cerr << "osm: " << printable(error.message) << ". --force goes on\n";
}

Result<json::value> leave(const machine::LeaveOptions& options) {
  OSM_TRY(const machine::LeaveResult left, machine::leave(options, SystemClock()));
  return json::value{{"directory", options.drain.directory},
                     {"drained", left.drained},
                     {"units", json::array(left.units.begin(), left.units.end())},
                     {"directory_deleted", left.directory_deleted}};
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
  auto options = std::make_shared<machine::LeaveOptions>();
  CLI::App* app = vm.add_subcommand(
      "leave",
      "On the machine, as root: leave the mesh: drain the machine, remove interception, and\n"
      "delete the machine's files");
  app->footer(
      "Example:\n  osm vm leave --dir /etc/osm/web-1\n\nExit codes: 0 left; 5 not drained in time; "
      "of any other than 0 see the message");
  app->add_option("--dir", options->drain.directory,
                  "Directory that `osm vm bootstrap` or `osm vm join` wrote")
      ->required();
  app->add_option("--controller", options->drain.controller,
                  "HOST:PORT of the controller's ADS server (default: from the bootstrap)");
  app->add_flag("--force", options->force, "Leave also if the machine cannot be drained");
  add_time(*app, "--timeout", options->drain.timeout,
           "Longest wait for the controller and the proxies");
  add_time(*app, "--grace", options->grace,
           "Time for requests that are under way, after the machine is drained");
  add_output(*app, flags);
  app->callback([&flags, options] {
    options->drain.directory = absolute(options->drain.directory);
    options->drain.as_proxy_user = true;
    options->on_not_drained = tell_not_drained;
    flags.exit_code = print(flags, leave(*options), show_left);
  });
}

}  // namespace osm::cli
