// Exact paths to handlers, with the 404 and 405 that are due otherwise.
#pragma once

#include <map>
#include <string>

#include "net/http.hpp"

namespace osm::net {

// Filled first, then called from any thread.
class Router {
 public:
  Router& get(std::string path, Handler handler);
  Router& post(std::string path, Handler handler);

  Response operator()(const Request& request) const;

 private:
  std::map<std::string, std::map<std::string, Handler>> routes_;  // path → method → handler
};

}  // namespace osm::net
