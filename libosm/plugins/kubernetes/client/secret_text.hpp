// Secrets as objects of the API.
#pragma once

#include <boost/json/object.hpp>

#include "base/secret_json.hpp"

namespace osm::inline v1::kubernetes {

// Overwrites the data of the Secret `secret`, and keeps the rest.
inline void erase_data(boost::json::object& secret) {
  if (boost::json::value* const data = secret.if_contains("data")) erase_texts(*data);
}

}  // namespace osm::inline v1::kubernetes
