#include "osm/net/router.hpp"

namespace osm::inline v1::net {

Router& Router::get(std::string path, Handler handler) {
  routes_[std::move(path)]["GET"] = std::move(handler);
  return *this;
}

Router& Router::post(std::string path, Handler handler) {
  routes_[std::move(path)]["POST"] = std::move(handler);
  return *this;
}

Response Router::operator()(const Request& request) const {
  const auto path = routes_.find(request.path);
  if (path == routes_.end()) {
    std::string known;
    for (const auto& [route, methods] : routes_) known += (known.empty() ? "" : ", ") + route;
    return error_response(
        {ErrorCode::kNotFound, "there is nothing at " + request.path + "; there is " + known});
  }
  const auto handler = path->second.find(request.method);
  if (handler != path->second.end()) return handler->second(request);

  std::string allowed;
  for (const auto& [method, unused] : path->second)
    allowed += (allowed.empty() ? "" : ", ") + method;
  Response response =
      error_response({ErrorCode::kInvalidArgument,
                      request.path + " does not take " + request.method + "; it takes " + allowed});
  response.status = 405;
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace osm::inline v1::net
