#include "ads/replica_streams.hpp"

#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/digest.hpp"
#include "base/maps.hpp"
#include "model/proxy_digest.hpp"

namespace osm::inline v1::ads {
namespace {

// A text is this and, in base64, both digests of each stream.
constexpr std::string_view kVersion = "1 ";
constexpr std::size_t kProxyBytes = 6;  // among 10,000 proxies, two collide once in 5,000,000 cases
constexpr std::size_t kHostBytes = 3;

std::string start_of(const Digest& digest, std::size_t size) {
  return {digest.bytes.begin(), digest.bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

std::string digest_of_proxy(const model::ProxyKey& proxy) {
  return start_of(model::digest_of(proxy), kProxyBytes);
}

// Hosts by proxy, both as digests. A text of another version reads as empty.
std::map<std::string, std::string> parse_streams(std::string_view text) {
  std::map<std::string, std::string> streams;
  if (!text.starts_with(kVersion)) return streams;
  const std::string bytes = from_base64(text.substr(kVersion.size())).value_or("");
  constexpr std::size_t kSize = kProxyBytes + kHostBytes;
  for (std::size_t at = 0; at + kSize <= bytes.size(); at += kSize)
    streams.emplace(bytes.substr(at, kProxyBytes), bytes.substr(at + kProxyBytes, kHostBytes));
  return streams;
}

}  // namespace

void ReplicaStreams::opened(const model::ProxyKey& proxy, std::string_view host) {
  if (!board_) return;
  const std::string id = digest_of_proxy(proxy);
  const Local& local = local_[id] = {proxy, start_of(digest_of(host), kHostBytes)};
  suspects_.erase(id);
  if (Published* shown = find_in(published_, id)) {
    *shown = {local.host, ticks_ + kPublishedTicks};
  } else {
    queued_[id] = local.host;
  }
}

void ReplicaStreams::closed(const model::ProxyKey& proxy) {
  const std::string id = digest_of_proxy(proxy);
  local_.erase(id);
  suspects_.erase(id);
}

std::vector<ReplicaStreams::Twin> ReplicaStreams::tick(SteadyTime now) {
  std::vector<Twin> twins;
  if (!board_) return twins;
  ++ticks_;
  publish();
  read(now);
  std::erase_if(suspects_, [&](const auto& entry) {
    const auto& [id, suspect] = entry;
    if (now < suspect.due) return false;
    twins.push_back({local_.at(id).proxy, suspect.replica});
    return true;
  });
  return twins;
}

void ReplicaStreams::publish() {
  std::erase_if(published_, [this](const auto& entry) { return entry.second.until <= ticks_; });
  while (!queued_.empty() && published_.size() < kMaxPublished) {
    auto next = queued_.extract(queued_.begin());
    published_[next.key()] = {std::move(next.mapped()), ticks_ + kPublishedTicks};
  }
  std::string bytes;
  for (const auto& [id, shown] : published_) bytes += id + shown.host;
  std::string text = bytes.empty() ? std::string() : std::string(kVersion) + base64(bytes);
  // Try again with the next tick if it is refused.
  if (text != text_ && board_->publish(kTopic, text).ok()) text_ = std::move(text);
}

void ReplicaStreams::read(SteadyTime now) {
  const auto said = board_->read(kTopic);
  const bool known_before = std::exchange(known_, said.ok());
  if (!said) return;
  // Other replicas may have missed what this one published during the outage, and the reverse.
  if (!known_before)
    for (const auto& [id, local] : local_) queued_[id] = local.host;
  for (const auto& [replica, text] : *said) {
    std::string& before = read_[replica];
    if (text == before) continue;
    const auto streams_before = parse_streams(before);
    for (const auto& [id, host] : parse_streams(text)) {
      const std::string* host_before = find_in(streams_before, id);
      if (host_before && *host_before == host) continue;
      // This replica's own text never differs: it has the host of the stream here.
      const Local* local = find_in(local_, id);
      if (local && local->host != host) suspects_.try_emplace(id, Suspect{replica, now + kMove});
    }
    before = text;
  }
  std::erase_if(read_, [&](const auto& entry) { return !said->contains(entry.first); });
}

}  // namespace osm::inline v1::ads
