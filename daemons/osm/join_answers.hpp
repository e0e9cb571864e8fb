// One answer from those of several controllers of a mesh.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace osm::cli {

// The answer of one controller.
struct ReplicaAnswer {
  std::string replica;
  boost::json::value answer;
};

// True if each controller knows a part of the answer to GET `path`.
bool is_split(std::string_view path);

// Result: lists joined without repetition, each proxy as its own controller tells of it, and counts
// added up. `answers` has at least one.
boost::json::value join_answers(std::string_view path, std::vector<ReplicaAnswer> answers);

}  // namespace osm::cli
