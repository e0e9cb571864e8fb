// Questions for names: the parts of a script that let those over TCP past the proxy, and send those
// over UDP to it.
#pragma once

#include <string>
#include <string_view>

#include "osm/inject/interception.hpp"

namespace osm::inline v1::inject {

// Shell functions for rules that spare the name servers: spare_name_servers(), and what it calls.
std::string_view name_server_functions();

// Shell functions: the same, remove_dns(), which `--remove` calls, and those that dns_commands()
// call.
std::string dns_functions(const InterceptionOptions& options);

// Commands for the function that applies the interception. Without InterceptionOptions::dns they
// undo what an earlier script did.
std::string dns_commands(const InterceptionOptions& options);

}  // namespace osm::inline v1::inject
