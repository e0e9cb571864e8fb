// Builds one document from the events of a parser, with the line of each field. It throws Refused
// at a limit and at a duplicate key; the caller catches that.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/yaml.hpp"

namespace osm::inline v1::spec {

struct Refused {
  YamlError error;
};

class DocumentBuilder {
 public:
  explicit DocumentBuilder(std::size_t max_nodes) : max_nodes_(max_nodes) {}

  bool empty() const { return line_ == 0; }
  int line() const { return line_; }  // of the first node; 0: there is none
  YamlDocument take() { return {std::move(root_), line_, std::move(lines_)}; }

  // True if the next event belongs to a key of a map.
  bool at_key() const;
  void key(int line, std::string_view text);

  // The next value. Lifetime of the result: the next event.
  const boost::json::value& add(int line, boost::json::value value);
  // Begins and ends a map or a list, which is given empty. The result of close() is the whole one.
  void open(int line, boost::json::value value);
  const boost::json::value& close();

  // Counts values towards the limit.
  void spend(std::size_t nodes, int line);
  // Refuses a value of `depth` levels here.
  void check_depth(std::size_t depth, int line) const;

 private:
  struct Frame {
    boost::json::value value;
    std::string path;
    std::optional<std::string> key;  // a map's key, read; its value follows
    int key_line = 0;
  };

  std::string path_of_next() const;
  int line_of_next(int line) const;
  void remember_line(const std::string& path, int line);
  void count(int line);
  const boost::json::value& store(boost::json::value value);

  const std::size_t max_nodes_;
  int line_ = 0;
  std::size_t nodes_ = 0;
  std::vector<Frame> frames_;
  boost::json::value root_;
  std::map<std::string, int> lines_;
};

}  // namespace osm::inline v1::spec
