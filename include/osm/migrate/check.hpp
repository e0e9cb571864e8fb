// Compares the meaning of the objects of an OSM v1.2 cluster with their meaning in libosm. It reads
// a dump of the cluster (`kubectl get ... -o yaml`), and asks neither cluster nor controller.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::migrate {

// Meaning of an object here, compared with OSM v1.2. Ordered by weight.
enum class Verdict { kSame, kMore, kLess, kNothing };
// "same", "more", "less", "nothing".
OSM_API std::string_view verdict_text(Verdict verdict);

// Effect of a difference on calls and connections.
enum class Access {
  kSame,     // the same calls and connections are allowed
  kRefused,  // something is refused here that OSM v1.2 allowed
  kAllowed,  // something is allowed here that OSM v1.2 refused
};
// "same", "refused", "allowed".
OSM_API std::string_view access_text(Access access);

// One difference in the meaning of one object.
struct OSM_API Difference {
  ObjectKey object;
  std::string api_version;  // as the dump has it
  Verdict verdict = Verdict::kSame;
  Access access = Access::kSame;
  std::string path;   // file of the dump
  int line = 0;       // 0: unknown
  std::string field;  // "spec.rules"; empty: the whole object
  std::string reason;
  std::string remedy;
};

// All differences between the cluster of the dumps and a mesh of libosm.
struct OSM_API Report {
  std::vector<Difference> differences;  // ordered by object
  std::vector<std::string> notes;       // assumptions, because the dump lacks something
  // Numbers of objects, by their gravest difference.
  std::size_t same = 0, more = 0, less = 0, nothing = 0;
  std::size_t others = 0;  // objects of other kinds, or outside the mesh

  // True if a difference has another access than kSame.
  bool access_changes() const;
};

// One text of a dump: objects and lists of objects, as YAML or JSON.
struct Dump {
  std::string path;  // for messages
  std::string text;
};

// The mesh to look at.
struct Options {
  // Absent: found in the dump, else "osm" and "osm-system".
  std::optional<std::string> mesh_name{};
  std::optional<std::string> osm_namespace{};
};

// Units: bytes of one dump.
inline constexpr std::size_t kMaxDumpBytes = 64 * 1024 * 1024;

// Failure: kInvalidSyntax, kTooLarge or kInvalidField, with file and line, for a dump that cannot
// be read; kInvalidArgument for dumps without any object. Thread: any. Blocking: computes.
OSM_API Result<Report> check(const std::vector<Dump>& dumps, const Options& options = {});

}  // namespace osm::inline v1::migrate
