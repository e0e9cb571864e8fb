// Decodes the bytes of a list's response into items, one by one, in any number of pieces. Its
// memory is that of one item: a list of 10,000 pods is never held as text.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// Not thread-safe.
class ListDecoder {
 public:
  using OnItem = std::function<bool(boost::json::object)>;

  // `what` names the list in errors: "list pods". An item, and what is around all items, may have
  // `max_bytes` each.
  ListDecoder(std::string what, std::size_t max_bytes = 8 * 1024 * 1024)
      : what_(std::move(what)), max_bytes_(max_bytes) {}

  // Calls `on_item` for each complete item of the member "items"; `on_item` returns true to
  // continue. Failure: kInvalidSyntax, kTooLarge. The decoder cannot be used afterwards.
  Status feed(std::string_view data, const OnItem& on_item);
  // After the last byte. Result: the list without its items. Failure: kInvalidSyntax.
  Result<boost::json::object> finish() const;

 private:
  enum class Place { kAround, kBetweenItems, kItem };

  Status around(char c);
  Result<bool> between_items(char c);
  // Result: true if `c` ends the item.
  bool in_item(char c);
  // Result: true if `c` is part of a text.
  bool in_text(char c);
  Error malformed() const;

  std::string what_;
  std::size_t max_bytes_;
  Place place_ = Place::kAround;
  std::size_t depth_ = 0;
  bool text_ = false;     // between quotation marks
  bool escaped_ = false;  // after a backslash there
  std::string around_;    // what is around the items
  std::size_t text_begin_ = 0;
  std::string last_text_;  // of the outermost object: a name or a value
  std::string name_;       // of the member that is read
  std::string item_;
};

}  // namespace osm::inline v1::kubernetes
