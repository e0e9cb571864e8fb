// Common to the commands of `osm`: flags, exit codes, output of an answer.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <string>
#include <string_view>

#include "admin_client.hpp"
#include "base/utf8.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::cli {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2 };

// $OSM_STATE_DIR, else /var/lib/osm.
std::string default_state_dir();

struct Flags {
  std::string state_dir = default_state_dir();
  std::string output = "table";
  double timeout_seconds = 10;
  int exit_code = kDone;  // result of the command that ran

  bool as_json() const { return output == "json"; }
  std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(static_cast<long>(timeout_seconds * 1000));
  }
  AdminClient client() const { return {state_dir, timeout()}; }
};

// Tells people what went wrong. Result: the exit code.
int fail(const Error& error);

// Prints an answer: as it is for programs, by `show` for people. Result: the exit code.
int print(const Flags& flags, const Result<boost::json::value>& answer,
          std::string (*show)(const boost::json::value&));

// Every command takes the flags that find the controller; those that print also take -o.
CLI::App* command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                  const char* example, bool prints = true);

// A command that prints the answer to GET `path`.
void query(CLI::App& parent, Flags& flags, const char* name, const char* what, const char* example,
           const char* path, std::string (*show)(const boost::json::value&));

// "500ms", "30s", "2m", or seconds without a unit. Failure: kInvalidArgument.
Result<std::chrono::milliseconds> parse_duration(const std::string& text);

// `path` from the root directory on, without "." and "..".
std::string absolute(const std::string& path);

// Foreign text (a proxy's refusal, a key of a file) for a terminal: control characters, which
// could move its cursor or write its clipboard, become "\\x1b".
inline std::string printable(std::string_view text) { return escape_controls(text, "\\x"); }

// The commands with files of their own.
void add_vm_bootstrap(CLI::App& vm, Flags& flags);
void add_vm_renew(CLI::App& vm, Flags& flags);
void add_policy(CLI::App& root, Flags& flags);
void add_status(CLI::App& root, Flags& flags);
void add_certificate(CLI::App& root, Flags& flags);
void add_deny(CLI::App& root, Flags& flags);
void add_migrate(CLI::App& root, Flags& flags);
void add_install(CLI::App& root, Flags& flags);
void add_uninstall(CLI::App& root, Flags& flags);

// `osm status` of an object: prints the last answer. Result: the exit code: 0 applied; 1 rejected,
// refused or failed, or with `must_exist` not in the mesh; 2 not applied. Blocking: with `wait`, up
// to the time-out and one request more; a terminal is told how it goes.
int run_status(const Flags& flags, const ObjectKey& object, bool wait,
               std::chrono::milliseconds timeout, bool must_exist = false);

}  // namespace osm::cli
