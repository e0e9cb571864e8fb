// Parts of the output for people: tables of an answer's members.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace osm::cli {

using Row = std::vector<std::string>;

// A table: columns as wide as their widest cell, two spaces between. Every row has as many cells as
// the header.
std::string table(const Row& header, const std::vector<Row>& rows);

// An answer of another version may lack a field: it shows as "-", never as a crash.
std::string text(const boost::json::value& value);

template <class Map>
std::string cell(const Map& object, std::string_view name) {
  const boost::json::value* value = member(object, name);
  return value ? text(*value) : "-";
}

// A row for each object of the list `name`, with a cell for each field.
std::vector<Row> rows_of(const boost::json::value& answer, std::string_view name,
                         std::initializer_list<std::string_view> fields);

// The items, with commas between; "-" if there are none.
std::string joined(const boost::json::array& list);

}  // namespace osm::cli
