// One object as it was written, whatever store holds it: its metadata and its JSON text.
#pragma once

#include <compare>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1 {

// Identifies an object in a mesh.
struct OSM_API ObjectKey {
  std::string kind;  // "TrafficTarget"
  std::string ns;    // empty for cluster-scoped kinds
  std::string name;

  // "TrafficTarget bookstore/buyer"
  std::string str() const;

  friend bool operator==(const ObjectKey&, const ObjectKey&) = default;
  friend std::strong_ordering operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// Place that an object was read from. A store without files puts its own name of the object into
// `path`.
struct OSM_API ObjectSource {
  std::string path;
  int line = 0;                       // line of the document's first line; 0: unknown
  std::map<std::string, int> fields;  // "spec.rules[0].kind" → line

  // The line of `field`, or of its nearest ancestor that has one, or `line`.
  int line_of(std::string_view field) const;
};

// An object as its store holds it: shared, immutable, not decoded.
struct Object {
  ObjectKey key;
  std::string api_version;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::string resource_version;  // changes whenever the content does
  std::string json;              // the whole object, metadata included
  ObjectSource source;
};

// One fault of one object or source. Operators see it in logs, in /metrics and in the CLI.
struct OSM_API Problem {
  ErrorCode code = ErrorCode::kInvalidField;
  ObjectKey object;  // empty kind: the source itself
  std::string path;  // file
  int line = 0;
  std::string field;  // "spec.rules[0].kind"; empty: the whole object
  std::string cause;  // the fault and the remedy

  // "mesh/a.yaml:12: TrafficTarget bookstore/buyer: spec.rules[0].kind: <cause> [invalid-field]"
  std::string text() const;
  // Fills in `path` and `line` from the object's present place.
  void locate(const ObjectSource& source);

  friend bool operator==(const Problem&, const Problem&) = default;
  friend std::strong_ordering operator<=>(const Problem&, const Problem&) = default;
};

}  // namespace osm::inline v1
