#include "spec/json_text.hpp"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse_options.hpp>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "spec/document_builder.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;
using boost::system::error_code;

constexpr std::string_view kBlank = " \t\r\n";

// Takes Boost's events. The text is given line by line, so that each event has its line: no token
// of JSON but blank space goes on in another line.
class JsonEvents {
 public:
  static constexpr std::size_t max_object_size = -1;
  static constexpr std::size_t max_array_size = -1;
  static constexpr std::size_t max_key_size = -1;
  static constexpr std::size_t max_string_size = -1;

  explicit JsonEvents(std::size_t max_nodes) : builder_(max_nodes) {}

  DocumentBuilder& builder() { return builder_; }
  void set_line(int line) { line_ = line; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return open(json::object()); }
  bool on_object_end(std::size_t, error_code&) { return close(); }
  bool on_array_begin(error_code&) { return open(json::array()); }
  bool on_array_end(std::size_t, error_code&) { return close(); }
  bool on_key_part(json::string_view part, std::size_t, error_code&) { return append(part); }
  bool on_key(json::string_view part, std::size_t, error_code&) {
    append(part);
    builder_.key(line_, std::exchange(text_, {}));
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, error_code&) { return append(part); }
  bool on_string(json::string_view part, std::size_t, error_code&) {
    append(part);
    return add(json::string(std::exchange(text_, {})));
  }
  bool on_number_part(json::string_view, error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, error_code&) { return add(value); }
  bool on_uint64(std::uint64_t value, json::string_view, error_code&) { return add(value); }
  bool on_double(double value, json::string_view, error_code&) { return add(value); }
  bool on_bool(bool value, error_code&) { return add(value); }
  bool on_null(error_code&) { return add(nullptr); }
  bool on_comment_part(json::string_view, error_code&) { return true; }
  bool on_comment(json::string_view, error_code&) { return true; }

 private:
  bool append(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool add(json::value value) {
    builder_.add(line_, std::move(value));
    return true;
  }
  bool open(json::value value) {
    builder_.open(line_, std::move(value));
    return true;
  }
  bool close() {
    builder_.close();
    return true;
  }

  DocumentBuilder builder_;
  int line_ = 0;
  std::string text_;  // parts of a string or a key
};

json::parse_options json_options() {
  json::parse_options out;
  out.max_depth = kMaxDepth + 1;  // the builder has a better text
  return out;
}

// Reads one value at the beginning of the text, and removes it. Result: the value.
YamlDocument take_value(std::string_view& text, int& line, std::size_t max_nodes) {
  json::basic_parser<JsonEvents> parser(json_options(), max_nodes);
  error_code fault;
  while (!parser.done() && !text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    parser.handler().set_line(line);
    const std::size_t read = parser.write_some(true, text.data(), end, fault);
    if (fault) break;
    line += static_cast<int>(std::count(text.begin(), text.begin() + read, '\n'));
    text.remove_prefix(read);
  }
  if (!fault && !parser.done()) parser.write_some(false, "", 0, fault);
  if (fault) throw Refused{{ErrorCode::kInvalidSyntax, line, "not JSON: " + fault.message()}};
  return parser.handler().builder().take();
}

}  // namespace

std::vector<YamlResult> parse_json(std::string_view text, int first_line, std::size_t max_nodes) {
  std::vector<YamlResult> out;
  int line = first_line;
  try {
    for (;;) {
      const std::size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
      line += static_cast<int>(std::count(text.begin(), text.begin() + begin, '\n'));
      text.remove_prefix(begin);
      if (text.empty()) return out;
      out.push_back(take_value(text, line, max_nodes));
    }
  } catch (const Refused& refused) {
    out.push_back(refused.error);
  } catch (const std::exception& fault) {
    out.push_back(
        YamlError{ErrorCode::kInvalidSyntax, line, std::string("not JSON: ") + fault.what()});
  }
  return out;
}

}  // namespace osm::inline v1::spec
