// The routes of the admin API, and one answer from those of several controllers of a mesh.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"

namespace osm::inline v1::net {

// A rule by which answers of several controllers make one.
enum class AdminMerge {
  // Each controller has the whole answer, or one alone has it: ask the next one after not-found,
  // not-ready or unavailable, and after no other error, since a request may change something.
  kFirst,
  // Ask all. Members of the same name: lists are united, counts added, a yes of one is a yes, and a
  // text of one fills the empty text of another.
  kUnite,
  kUniteOfEach,  // the same; each item of the list, the only field, has its controller as `replica`
  kUniteByName,  // as kUnite; items of the list, the only field, with the same `name` become one
  // The same as kUnite, each proxy as its own controller tells of it. Each tells of all proxies.
  kOwnProxies,
};

// Lifetime: the texts are constants.
struct AdminRoute {
  std::string_view method;
  std::string_view path;
  AdminMerge merge;
  std::string_view fields;  // members of the answer, separated by blanks; an answer may have more
};

// All routes. daemons/README.md has their parameters and their answers in full. Thread: any.
OSM_API std::vector<AdminRoute> admin_routes();

// The answer of one controller.
struct ReplicaAnswer {
  std::string replica;  // its name, or on Kubernetes its pod's
  std::string body;     // JSON, of an answer with status 200
};

// Result: one answer, as JSON. `answers` to the same request has at least one; a body that is no
// JSON object adds nothing. Thread: any.
OSM_API std::string join_answers(const AdminRoute& route,
                                 const std::vector<ReplicaAnswer>& answers);

}  // namespace osm::inline v1::net
