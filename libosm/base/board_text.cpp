#include "base/board_text.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/utf8.hpp"
#include "osm/ids.hpp"

namespace osm::inline v1 {
namespace {

constexpr std::size_t kMaxText = 100'000;
constexpr std::size_t kMaxTexts = 250'000;  // an API server takes 256 KiB of annotations

}  // namespace

Result<bool> set_board_text(std::map<std::string, std::string>& topics, const std::string& topic,
                            std::string text) {
  const std::string what = "topic \"" + topic + "\" of the replicas' board";
  if (!is_dns_label(topic))
    return Error{ErrorCode::kInvalidArgument,
                 what + ": a topic is of a-z, 0-9 and '-', 63 characters at most"};
  if (!is_utf8(text)) return Error{ErrorCode::kInvalidArgument, what + ": its text is not UTF-8"};
  std::size_t all = text.size();
  for (const auto& [name, other] : topics)
    if (name != topic) all += other.size();
  if (text.size() > kMaxText || all > kMaxTexts)
    return Error{ErrorCode::kInvalidArgument,
                 what + ": " + std::to_string(text.size()) + " bytes, " + std::to_string(all) +
                     " with the other topics; at most " + std::to_string(kMaxText) + " and " +
                     std::to_string(kMaxTexts) + " fit"};
  const auto [at, fresh] = topics.try_emplace(topic);
  const bool differs = fresh || at->second != text;
  at->second = std::move(text);
  return differs;
}

}  // namespace osm::inline v1
