// One file of Kubernetes objects: YAML text in, Objects out.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osm/spec/kinds.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {

struct ObjectFile {
  std::vector<std::shared_ptr<const Object>> objects;  // in the file's order
  std::vector<Problem> problems;                       // documents that are no objects; left out
  std::vector<Problem> broken;                         // text that cannot be parsed

  // False if one document cannot be parsed; then none of the file's objects count.
  bool readable() const { return broken.empty(); }
};

// The objects in a List, such as `kubectl get -o yaml` writes, or the document itself.
std::vector<YamlDocument> items_of(YamlDocument document);

// Fills in the common fields of all objects, and as many as it can of a bad one: problems name it.
// Result: the faults, without path and line.
std::vector<Problem> read_metadata(const boost::json::value& document, Object& object,
                                   const Kinds& kinds = mesh_kinds());

// Problems name `path` as the place of the text. Failure: none.
ObjectFile read_object_file(std::string_view text, const std::string& path,
                            const Kinds& kinds = mesh_kinds());

}  // namespace osm::inline v1::spec
