#include "kubernetes/client/watch_decoder.hpp"

#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/api_status.hpp"

namespace osm::inline v1::kubernetes {
namespace {

std::optional<WatchEventType> type_of(std::string_view text) {
  if (text == "ADDED") return WatchEventType::kAdded;
  if (text == "MODIFIED") return WatchEventType::kModified;
  if (text == "DELETED") return WatchEventType::kDeleted;
  if (text == "BOOKMARK") return WatchEventType::kBookmark;
  return std::nullopt;
}

}  // namespace

Status WatchDecoder::feed(std::string_view data, const OnEvent& on_event) {
  while (!data.empty()) {
    const auto end = data.find('\n');
    if (partial_.size() + std::min(end, data.size()) > max_line_bytes_)
      return Error{ErrorCode::kTooLarge, what_ + ": an event is larger than " +
                                             std::to_string(max_line_bytes_) + " bytes"};
    if (end == std::string_view::npos) {
      partial_.append(data);
      return {};
    }
    bool go_on = true;
    if (partial_.empty()) {
      OSM_TRY(go_on, line(data.substr(0, end), on_event));
    } else {
      partial_.append(data.substr(0, end));
      const std::string complete = std::exchange(partial_, {});
      OSM_TRY(go_on, line(complete, on_event));
    }
    if (!go_on) return {};
    data.remove_prefix(end + 1);
  }
  return {};
}

Result<bool> WatchDecoder::line(std::string_view text, const OnEvent& on_event) const {
  if (text.find_first_not_of(" \t\r") == std::string_view::npos) return true;
  const Error malformed{ErrorCode::kInvalidSyntax, what_ + ": what the server sent is no event"};
  OSM_TRY(boost::json::object event, parse_json_object(text, what_ + ": the server's answer"));
  boost::json::value* object = event.if_contains("object");
  const std::string type = text_at(event, "type");
  if (object == nullptr || !object->is_object()) return malformed;
  if (type == "ERROR") return error_of_status(object->get_object(), what_);
  const auto known = type_of(type);
  if (!known) return malformed;
  return on_event(*known, std::move(object->get_object()));
}

}  // namespace osm::inline v1::kubernetes
