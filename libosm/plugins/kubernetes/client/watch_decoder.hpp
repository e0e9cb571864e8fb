// Decodes the bytes of a watch's response into events. One JSON document is one line, in any number
// of pieces.
#pragma once

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "kubernetes/client/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// Not thread-safe.
class WatchDecoder {
 public:
  using OnEvent = std::function<bool(WatchEventType, boost::json::object)>;

  // `what` names the watch in errors: "watch Pod". A line may have `max_line_bytes`.
  WatchDecoder(std::string what, std::size_t max_line_bytes = 8 * 1024 * 1024)
      : what_(std::move(what)), max_line_bytes_(max_line_bytes) {}

  // Calls `on_event` for each complete event; `on_event` returns true to continue.
  // Failure: kInvalidSyntax, kTooLarge, or the server's ERROR event. The decoder cannot be used
  // afterwards.
  Status feed(std::string_view data, const OnEvent& on_event);

 private:
  Result<bool> line(std::string_view text, const OnEvent& on_event) const;

  std::string what_;
  std::size_t max_line_bytes_;
  std::string partial_;
};

}  // namespace osm::inline v1::kubernetes
