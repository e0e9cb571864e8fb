// A list of what was checked, as `osm check` and `osm verify` print it.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "command.hpp"
#include "osm/kubernetes/check.hpp"

namespace osm::cli {

using kubernetes::Finding;
using kubernetes::Verdict;
using Findings = std::vector<Finding>;

// Objects with problems, and proxies that refuse or owe their configuration. Result: the UUIDs of
// the connected proxies; none if a controller did not answer. Failure: the client's.
Result<std::optional<std::set<std::string>>> check_mesh(const AdminClient& client,
                                                        Findings& findings);

// Prints the faults first. Result: the exit code: kFailed if there is a fault, or with `strict` a
// warning.
int print_findings(const Flags& flags, const Findings& findings, bool strict = false);

}  // namespace osm::cli
