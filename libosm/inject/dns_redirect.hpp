// The part of a machine's script that sends questions for names to the proxy.
#pragma once

#include <string>

#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {

// Shell functions: remove_dns(), which `--remove` calls, and those that dns_commands() call.
std::string dns_functions(const InterceptionOptions& options);

// Commands for the function that applies the interception. Without InterceptionOptions::dns they
// undo what an earlier script did.
std::string dns_commands(const InterceptionOptions& options);

}  // namespace osm::inline v1::inject
