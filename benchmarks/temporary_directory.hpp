#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace osm::bench {

// Gone with all its files at the end; an empty path: there can be none.
struct TemporaryDirectory {
  std::string path = (std::filesystem::temp_directory_path() / "osm_bench.XXXXXX").string();
  TemporaryDirectory() {
    if (::mkdtemp(path.data()) == nullptr) path.clear();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove_all(path, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
};

}  // namespace osm::bench
