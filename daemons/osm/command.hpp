// Common to the commands of `osm`: flags, exit codes, output of an answer.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "admin_client.hpp"
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
  AdminClient client() const;
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

// `osm certificate ...`; certificate_commands.cpp.
void add_certificate(CLI::App& root, Flags& flags);

}  // namespace osm::cli
