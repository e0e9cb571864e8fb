#include "ads/stream_balance.hpp"

#include <numeric>
#include <utility>

#include "base/numbers.hpp"

namespace osm::inline v1::ads {

std::size_t StreamBalance::excess(std::size_t own, const std::vector<std::size_t>& all) {
  if (all.size() < 2) return 0;
  const std::size_t sum = std::accumulate(all.begin(), all.end(), std::size_t{0});
  const std::size_t tenths = 10 * all.size();
  const std::size_t most = (11 * sum + tenths - 1) / tenths;
  return own > most ? own - most : 0;
}

std::size_t StreamBalance::tick(SteadyTime now, std::optional<std::size_t> streams) {
  if (!board_) return 0;
  publish(now, streams);
  if (!decided_at_) decided_at_ = now;
  if (!streams || now - *decided_at_ < kRound) return 0;
  decided_at_ = now;
  const auto said = board_->read(kTopic);
  if (!said.ok()) return 0;
  std::vector<std::size_t> all;
  for (const auto& [replica, text] : *said)
    if (const auto number = number_of<std::size_t>(text)) all.push_back(*number);
  return excess(*streams, all);
}

void StreamBalance::publish(SteadyTime now, std::optional<std::size_t> streams) {
  std::string text = streams ? std::to_string(*streams) : std::string();
  if (text == text_ || (published_at_ && now - *published_at_ < kPublish)) return;
  // Try again with the next tick if it is refused.
  if (!board_->publish(kTopic, text).ok()) return;
  text_ = std::move(text);
  published_at_ = now;
}

}  // namespace osm::inline v1::ads
