// Bytes of a watch's response → events. One JSON document is one line, however it was cut.
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
  // `what` is watched: "watch Pod", for errors. A line may have `max_line_bytes`.
  WatchDecoder(std::string what, std::size_t max_line_bytes = 8 * 1024 * 1024)
      : what_(std::move(what)), max_line_bytes_(max_line_bytes) {}

  // Calls `on_event` for each event that is complete now. `on_event` says whether to go on.
  // Failure, after which it is spent: kInvalidSyntax, kTooLarge, or what the server's ERROR says.
  Status feed(std::string_view data,
              const std::function<bool(WatchEventType, boost::json::object)>& on_event);

 private:
  Result<bool> line(std::string_view text,
                    const std::function<bool(WatchEventType, boost::json::object)>& on_event) const;

  std::string what_;
  std::size_t max_line_bytes_;
  std::string partial_;
};

}  // namespace osm::inline v1::kubernetes
