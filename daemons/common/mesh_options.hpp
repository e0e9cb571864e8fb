// The flags of both daemons, and their checks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "ca_options.hpp"
#include "osm/ids.hpp"
#include "osm/log.hpp"
#include "osm/net/address.hpp"

namespace osm::daemon {

inline constexpr int kUsage = 2;  // the exit code of wrong usage

struct MeshOptions {
  net::Address http_address;
  CaOptions ca;
  std::string osm_namespace = "osm-system";
  std::string mesh_name = "osm";
  TrustDomain trust_domain{"cluster.local"};
  LogLevel log_level = LogLevel::kInfo;
};

// `app` and the values are used until parse() returns; `app` captures defaults.

// HOST:PORT; `preset` without the flag.
void add_address(CLI::App& app, const std::string& flag, net::Address& address,
                 const std::string& preset, const std::string& text);
void add_http_address(CLI::App& app, MeshOptions& options);
// The CA, the namespace, the mesh's name and its trust domain.
void add_mesh_options(CLI::App& app, MeshOptions& options, const std::string& namespace_text);
void add_log_level(CLI::App& app, MeshOptions& options);

// Accepts values that `valid` accepts; else the error is "'x' is not <what>".
CLI::Validator names(bool (*valid)(std::string_view), const char* what);

// Result: the exit code to leave with when there is nothing to run (--help, wrong usage; what is to
// be said has been printed), else -1.
int parse(CLI::App& app, int argc, char** argv);

}  // namespace osm::daemon
