// Maps exact paths to handlers, and answers 404 and 405 otherwise.
#pragma once

#include <map>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/net/http.hpp"

namespace osm::inline v1::net {

// Thread: filled by one thread first, then called from any thread.
class OSM_API Router {
 public:
  // Sends all GET / POST requests for exactly `path` to `handler`. The last handler of a path
  // counts. Result: the router itself.
  Router& get(std::string path, Handler handler);
  Router& post(std::string path, Handler handler);

  // The handler's response, or 404 or 405. Thread: any, concurrently. Blocking: as the handler.
  Response operator()(const Request& request) const;

 private:
  std::map<std::string, std::map<std::string, Handler>> routes_;  // path → method → handler
};

}  // namespace osm::inline v1::net
