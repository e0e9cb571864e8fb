// Helpers of every fuzzer: a way to state invariants, and a way to make choices from bytes.
//
// clang's FuzzedDataProvider is not used: replays are built by gcc, which has none, and it takes
// numbers from the end of the input, which no one can write a seed for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace osm::fuzz {

using Run = void (*)(std::string_view input);

// The fuzzers of this program, by name.
inline std::map<std::string, Run>& fuzzers() {
  static std::map<std::string, Run> all;
  return all;
}

// Adds one while the program starts: `const bool kAdded = add("names", run);`.
inline bool add(const char* name, Run run) { return fuzzers().emplace(name, run).second; }

// A property that every input must keep. Aborts, which libFuzzer takes for a crash.
inline void require(bool holds, std::string_view property, std::string_view detail = "") {
  if (holds) return;
  std::fprintf(stderr, "property broken: %.*s\n%.*s\n", static_cast<int>(property.size()),
               property.data(), static_cast<int>(detail.size()), detail.data());
  std::abort();
}

// Choices read from the front of an input; zeros once it is used up. Every input means something,
// and letters and digits are bytes like others, so that seeds can be typed.
class Choices {
 public:
  explicit Choices(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  // '0' is false and '1' is true.
  bool flag() { return (byte() & 1) != 0; }
  // 0 to count - 1; '0' is 0. `count` is not 0.
  std::size_t below(std::size_t count) {
    std::size_t value = static_cast<std::uint8_t>(byte() - '0');
    if (count > 256) value = value << 8 | byte();
    return value % count;
  }
  template <class T>
  const T& of(std::span<const T> values) {
    return values[below(values.size())];
  }

  // The text up to the next line feed, at most `longest` bytes. "\n", "\0" and "\\" stand for what
  // they do in C.
  std::string line(std::size_t longest = 4096) {
    std::string text;
    while (!rest_.empty() && text.size() < longest) {
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\n') return text;
      if (c == '\\' && !rest_.empty()) {
        c = rest_.front();
        rest_.remove_prefix(1);
        if (c == 'n') c = '\n';
        if (c == '0') c = '\0';
      }
      text.push_back(c);
    }
    return text;
  }

  std::string_view rest() { return std::exchange(rest_, {}); }

 private:
  std::string_view rest_;
};

}  // namespace osm::fuzz
