// Secrets in JSON. Header only, so that plugins have it beside a shared libosm too.
#pragma once

#include <openssl/crypto.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

namespace osm::inline v1 {

// Overwrites every text in `value`, but for the names of members.
inline void erase_texts(boost::json::value& value) {
  if (auto* text = value.if_string()) OPENSSL_cleanse(text->data(), text->size());
  if (auto* list = value.if_array())
    for (boost::json::value& each : *list) erase_texts(each);
  if (auto* map = value.if_object())
    for (auto& member : *map) erase_texts(member.value());
}

// Does so with an object when it goes out of scope. Lifetime: `map` outlives it.
class EraseJsonOnExit {
 public:
  explicit EraseJsonOnExit(boost::json::object& map) : map_(map) {}
  ~EraseJsonOnExit() {
    for (auto& member : map_) erase_texts(member.value());
  }
  EraseJsonOnExit(const EraseJsonOnExit&) = delete;
  EraseJsonOnExit& operator=(const EraseJsonOnExit&) = delete;

 private:
  boost::json::object& map_;
};

}  // namespace osm::inline v1
