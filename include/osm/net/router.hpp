// Exact paths to handlers, with the 404 and 405 that are due otherwise.
#pragma once

#include <map>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/net/http.hpp"

namespace osm::inline v1::net {

// Filled first, then called from any thread.
class OSM_API Router {
 public:
  // All requests of that method for exactly `path` go to `handler`; the last one counts. Result:
  // itself.
  Router& get(std::string path, Handler handler);
  Router& post(std::string path, Handler handler);

  // What the handler answers, or 404 or 405. Thread: any, concurrently. Blocking: as the handler.
  Response operator()(const Request& request) const;

 private:
  std::map<std::string, std::map<std::string, Handler>> routes_;  // path → method → handler
};

}  // namespace osm::inline v1::net
