// Common to the commands that read and write objects.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "command.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/spec/kinds.hpp"

namespace osm::cli {

inline constexpr std::size_t kMaxFileBytes = 3 * 1024 * 1024;  // most of one that is read

// The kind that people call so: in any case, plural or short. Null: none.
const spec::Kind* parse_kind(std::string_view text);

// NAME with its namespace or without. Failure: kInvalidArgument, also if the object has no
// namespace and needs one.
Result<ObjectKey> parse_name(const spec::Kind& kind, bool needs_namespace, const std::string& ns,
                             const std::string& name);

// KIND and NAME as above. `name` empty: every object. Failure: kInvalidArgument.
Result<ObjectKey> parse_object(const std::string& kind, const std::string& ns,
                               const std::string& name);
// The kinds and their short forms, for the help.
std::string object_kinds();

// The documents of files ("-": standard input) and of all .yaml, .yml and .json files below
// directories, in the order of their names. Failure: the first fault, with its file and line.
Result<boost::json::array> read_documents(const std::vector<std::string>& paths);

// A document with nothing but the name of an object of mesh_kinds().
boost::json::object document_of(const ObjectKey& key);

// The object as the mesh has it. Failure: as the admin API's.
Result<boost::json::value> get_object(const AdminClient& client, const ObjectKey& key);

// Prints the results of /v1/objects/apply and delete. Result: the exit code: kFailed if an object
// was refused.
int report_changes(const Flags& flags, const Result<boost::json::value>& answer, bool dry_run);

}  // namespace osm::cli
