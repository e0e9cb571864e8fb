// Foreign text in log lines: whatever a message or a field holds, a line is one line, is JSON, says
// what was logged, and moves no terminal's cursor.
//
//   input: '0' to '3' the level, then lines: the message, then keys and values in turn.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <set>
#include <vector>

#include "base/utf8.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/runtime/json_log.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

std::string written(LogLevel level, const std::string& message,
                    const std::vector<LogField>& fields) {
  std::array<int, 2> ends{};
  require(::pipe(ends.data()) == 0, "a pipe can be made");
  const testing::ManualClock clock;
  net::JsonLog(ends[1], LogLevel::kDebug, clock)
      .write(level, message, std::span<const LogField>(fields));
  ::close(ends[1]);
  std::string text(64 * 1024, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  require(size > 0, "a line is written");
  text.resize(static_cast<std::size_t>(size));
  return text;
}

bool shows_controls(std::string_view line) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    const auto byte = static_cast<unsigned char>(line[at]);
    if (byte < 0x20 || byte == 0x7f) return true;
    // U+0080 to U+009F are C2 80 to C2 9F.
    if (byte == 0xc2 && at + 1 < line.size() && static_cast<unsigned char>(line[at + 1]) < 0xa0)
      return true;
  }
  return false;
}

void run(Choices choices) {
  const auto level = static_cast<LogLevel>(choices.below(4));
  const std::string message = choices.line(1000);
  std::vector<std::string> keys;
  std::vector<std::string> values;
  while (!choices.empty() && keys.size() < 8) {
    keys.push_back(choices.line(100));
    values.push_back(choices.line(1000));
  }
  std::vector<LogField> fields;
  for (std::size_t i = 0; i < keys.size(); ++i) fields.push_back({keys[i], values[i]});

  const std::string line = written(level, message, fields);
  require(line.back() == '\n' && std::ranges::count(line, '\n') == 1, "a line is one line", line);
  require(is_utf8(line), "a line is UTF-8", line);
  require(!shows_controls(std::string_view(line).substr(0, line.size() - 1)),
          "a line moves no cursor", line);
  boost::system::error_code fault;
  const json::value parsed = json::parse(line.substr(0, line.size() - 1), fault);
  require(!fault && parsed.is_object(), "a line is a JSON object", line);
  const json::object& object = parsed.get_object();
  require(object.at("message").as_string() == to_utf8(message), "a line has the message", line);
  require(object.size() == 3 + fields.size(), "no field takes the place of another", line);
  std::multiset<std::string> logged;
  for (const auto& [key, value] : object) logged.emplace(value.as_string());
  for (const std::string& value : values)
    require(logged.contains(to_utf8(value)), "a line has each value", line);
}

const bool kAdded = add("json_log", [](std::string_view input) { run(Choices(input)); });

}  // namespace
