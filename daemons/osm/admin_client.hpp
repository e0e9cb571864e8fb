// One request to the controller's admin API, with failures a person can act on.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "osm/result.hpp"

namespace osm::cli {

using Query = std::initializer_list<std::pair<std::string_view, std::string_view>>;

class AdminClient {
 public:
  AdminClient(std::string state_dir, std::chrono::milliseconds timeout)
      : state_dir_(std::move(state_dir)), timeout_(timeout) {}

  // Result: the answer. Failure: the controller's own error, or why it could not be asked.
  Result<boost::json::value> get(std::string_view path, Query query = {}) const;
  Result<boost::json::value> post(std::string_view path, Query query = {},
                                  const boost::json::value& body = nullptr) const;

 private:
  Result<boost::json::value> call(std::string_view method, std::string_view path, Query query,
                                  std::string body) const;

  std::string state_dir_;
  std::chrono::milliseconds timeout_;
};

}  // namespace osm::cli
