// Runs a fuzzer over files, without libFuzzer: `fuzz_replay NAME FILE-OR-DIRECTORY...`. Each place
// must lead to at least one input, so that a test whose seeds were moved fails.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> inputs_under(const fs::path& place) {
  if (!fs::is_directory(place)) return {place};
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(place))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

bool run(osm::fuzz::Run fuzzer, const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return false;
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  // Flushed before it runs: after a crash the last line names the input.
  std::printf("%s (%zu bytes)\n", file.c_str(), bytes.size());
  std::fflush(stdout);
  // A block of its own size on the heap: AddressSanitizer sees a read behind the end.
  const std::vector<char> input(bytes.begin(), bytes.end());
  fuzzer({input.data(), input.size()});
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const auto& fuzzers = osm::fuzz::fuzzers();
  const auto found = argc < 3 ? fuzzers.end() : fuzzers.find(argv[1]);
  if (found == fuzzers.end()) {
    std::fprintf(stderr, "usage: %s NAME FILE-OR-DIRECTORY...; names:", argv[0]);
    for (const auto& [name, unused] : fuzzers) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const osm::fuzz::Run fuzzer = found->second;
  fuzzer({});  // as libFuzzer begins
  std::size_t count = 0;
  for (int i = 2; i < argc; ++i) {
    const std::vector<fs::path> files = inputs_under(argv[i]);
    if (files.empty()) {
      std::fprintf(stderr, "no inputs in %s\n", argv[i]);
      return 1;
    }
    for (const fs::path& file : files) {
      if (!run(fuzzer, file)) {
        std::fprintf(stderr, "cannot read %s\n", file.c_str());
        return 1;
      }
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return 0;
}
