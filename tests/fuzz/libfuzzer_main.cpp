// libFuzzer calls this function, which calls the one fuzzer of the program.
#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  osm::fuzz::fuzzers().begin()->second({reinterpret_cast<const char*>(data), size});
  return 0;
}
