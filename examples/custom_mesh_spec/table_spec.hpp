// A mesh from a vendor's own table of services and callers:
//
//   service,address,port,runs_as,callers
//   books,10.96.0.7,80,books,web reports
//   web,10.96.0.8,80,web,
//
// Everything is of one namespace. A call is any HTTP request; who is not a caller is refused.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "osm/result.hpp"
#include "osm/spec/published_spec.hpp"

namespace vendor {

class TableSpec final : public osm::spec::PublishedSpec {
 public:
  explicit TableSpec(std::string ns) : ns_(std::move(ns)) {}

  // Reads the table and announces what is different from the last. A table that cannot be read
  // changes nothing; a row that means nothing is left out and reported. Thread: one at a time.
  osm::Status load(const std::string& path);

 private:
  // Everything one table says.
  struct Content {
    osm::SharedList<osm::Service> services;
    osm::SharedList<osm::smi::TrafficTarget> targets;
    std::set<std::string> names;  // of services
    std::set<osm::ServiceAccount> accounts;
    std::vector<osm::Problem> problems;
  };

  void read_row(const std::string& row, const std::string& path, int line, Content& content) const;

  const std::string ns_;
};

}  // namespace vendor
