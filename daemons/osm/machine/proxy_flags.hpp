// Common to `osm vm bootstrap` and `osm vm join`: flags of the machine's proxy, and the output.
#pragma once

#include <CLI/CLI.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "osm/machine/bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::cli {

// The flags as they were given.
struct ProxyFlags {
  std::string directory;
  std::optional<std::uint32_t> owner;
  std::string xds = "delta";
  bool grpc = false;
};
// The options --owner, --xds and --grpc. Lifetime: `flags` outlives `app`.
void add_proxy_flags(CLI::App& app, ProxyFlags& flags);
// The flags with an absolute directory.
machine::ProxyOptions proxy_of(const ProxyFlags& flags);

// The output for programs. Failure: that of `written`.
Result<boost::json::value> shown(const Result<machine::Bootstrapped>& written);
// The next steps on the machine, for people. `written`: of shown().
std::string next_steps(const boost::json::value& written);

}  // namespace osm::cli
