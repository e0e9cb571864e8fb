// Options of clients of etcd, for tests of plugins/etcd.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/certificate/etcd_ca.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::etcd_test {

struct ClientOptions {
  explicit ClientOptions(std::vector<std::string> endpoints) {
    options.endpoints = std::move(endpoints);
  }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder.file(name)) << text;
    return folder.file(name);
  }

  osm::testing::TemporaryDirectory folder;
  net::Threads io{1};
  net::Threads blocking{1};  // ends first: look-ups refer to io's context
  etcd::CaStoreOptions options{
      .endpoints = {}, .io = io.executor(), .blocking = blocking.executor()};
};

inline bool contains(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace osm::etcd_test
