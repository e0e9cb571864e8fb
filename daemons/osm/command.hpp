// Common to the commands of `osm`: flags, exit codes, output of an answer.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "admin_client.hpp"
#include "base/utf8.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// The exit codes of every command; docs/run.md has them for people.
enum ExitCode {
  kDone = 0,      // done; the call is allowed
  kFailed = 1,    // failed, or a fault was found
  kUsage = 2,     // wrong usage: nothing was tried
  kDenied = 3,    // a policy denies the call, or a server refused the caller
  kNotAsked = 4,  // nobody answered
  kNotYet = 5,    // not in time; it continues
};
ExitCode exit_code_of(const Error& error);

struct Flags {
  MeshFlags mesh;
  std::string output = "table";
  std::chrono::milliseconds timeout{10'000};  // of a question
  int exit_code = kDone;                      // result of the command that ran

  bool for_programs() const { return output == "json" || output == "yaml"; }
  // A line of JSON or a YAML document, as `output` says.
  std::string written(const boost::json::value& answer) const;
  AdminClient client() const { return {mesh, timeout}; }
};

// Says what went wrong: for programs on standard output, as {"error":{"code","message","remedy"}}.
// Result: the exit code of the error.
int fail(const Flags& flags, const Error& error);

// Prints an answer: as it is for programs, by `show` for people. Result: the exit code.
int print(const Flags& flags, const Result<boost::json::value>& answer,
          std::string (*show)(const boost::json::value&));

// Every command takes the flags that find the controller; those that print also take -o.
CLI::App* command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                  const char* example, bool prints = true);

// The same for a command that asks the API server only.
CLI::App* cluster_command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                          const char* example, bool prints = true);

// --strict, of the commands that end with 1 for faults.
void add_strict(CLI::App& app, bool& strict);

// -o table|json|yaml.
void add_output(CLI::App& app, Flags& flags);

// A command that prints the answer to GET `path`.
void query(CLI::App& parent, Flags& flags, const char* name, const char* what, const char* example,
           const char* path, std::string (*show)(const boost::json::value&));

// Times that an option takes.
struct TimeRange {
  std::chrono::milliseconds least{0};
  std::chrono::milliseconds most = std::chrono::hours(24);
};

// An option that takes a time: 500ms, 30s, 5m, 1h30m. The only one: all commands take the same.
// `time` is the default; 0: none is shown. Lifetime: `time` outlives `app`.
CLI::Option* add_time(CLI::App& app, const char* names, std::chrono::milliseconds& time,
                      const char* what, TimeRange range = {});

// `path` from the root directory on, without "." and "..".
std::string absolute(const std::string& path);

// Foreign text (a proxy's refusal, a key of a file) for a terminal: control characters, which
// could move its cursor or write its clipboard, become "\\x1b", and marks that turn its direction
// "\\u202e".
inline std::string printable(std::string_view text) { return escape_controls(text, "\\x"); }

// Adds commands to `root`. Lifetime: `flags` outlives it.
using AddCommands = void(CLI::App& root, Flags& flags);

// One for each folder, and the command beside them.
AddCommands add_cluster_commands, add_machine_commands, add_mesh_commands, add_completion;

// `osm status` of an object: prints the last answer. Result: the exit code: kDone applied; kFailed
// rejected or refused, or with `must_exist` not in the mesh; kNotYet not applied; or that of the
// error. If all proxies have it, `confirm` is asked before the answer is printed; its failure is
// printed in its place. Blocking: with `wait`, up to the time-out and one request more; a terminal
// is told how it goes.
int run_status(const Flags& flags, const ObjectKey& object, bool wait,
               std::chrono::milliseconds timeout, bool must_exist = false,
               const std::function<Status()>& confirm = {});

}  // namespace osm::cli
