#include "osm/net/router.hpp"

#include <fmt/format.h>

#include <ranges>

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
    return error_response(
        {ErrorCode::kNotFound, fmt::format("there is nothing at {}; there is {}", request.path,
                                           fmt::join(routes_ | std::views::keys, ", "))});
  }
  const auto handler = path->second.find(request.method);
  if (handler != path->second.end()) return handler->second(request);

  const std::string allowed = fmt::format("{}", fmt::join(path->second | std::views::keys, ", "));
  Response response =
      error_response({ErrorCode::kInvalidArgument,
                      request.path + " does not take " + request.method + "; it takes " + allowed});
  response.status = 405;
  response.headers.emplace_back("Allow", allowed);
  return response;
}

}  // namespace osm::inline v1::net
