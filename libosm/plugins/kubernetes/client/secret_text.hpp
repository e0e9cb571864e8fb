// What is left of a Secret in memory after its use.
#pragma once

#include <openssl/crypto.h>

#include <boost/json/object.hpp>

namespace osm::inline v1::kubernetes {

// Overwrites what the Secret `secret` holds.
inline void erase_data(boost::json::object& secret) {
  boost::json::value* const data = secret.if_contains("data");
  if (data == nullptr || !data->is_object()) return;
  for (auto& field : data->as_object())
    if (boost::json::string* text = field.value().if_string())
      OPENSSL_cleanse(text->data(), text->size());
}

}  // namespace osm::inline v1::kubernetes
