#include "ads/readiness_table.hpp"

#include <algorithm>

#include "base/base64.hpp"
#include "base/digest.hpp"
#include "base/maps.hpp"
#include "model/proxy_digest.hpp"

namespace osm::inline v1::ads {
namespace {

// A text is this and, in base64, both digests of each proxy.
constexpr std::string_view kSetVersion = "2 ";
constexpr std::size_t kNameBytes = 5;  // among 10,000 proxies, two collide once in 20,000 cases
constexpr std::size_t kServingBytes = 3;
constexpr std::size_t kEntryBytes = kNameBytes + kServingBytes;

std::uint64_t number_of(const Digest& digest, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | digest.bytes[i];
  return value;
}

void add_number(std::string& bytes, std::uint64_t value, std::size_t size) {
  while (size-- > 0) bytes += static_cast<char>(value >> (8 * size) & 0xff);
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (const char byte : bytes.substr(at, size))
    value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

}  // namespace

ReadinessTable::ReadinessTable(ReplicaBoard* board, const Clock& clock)
    : board_(board), clock_(clock) {
  if (board_) told_ = board_->subscribe([this] { read(); });
}

ReadinessTable::ProxyId40 ReadinessTable::id_of(const model::ProxyKey& proxy) {
  return number_of(model::digest_of(proxy), kNameBytes);
}

ReadinessTable::Serving24 ReadinessTable::digest_of(const model::Serving& serving) {
  const auto digest = static_cast<Serving24>(number_of(model::digest_of(serving), kServingBytes));
  return std::max<Serving24>(digest, 1);
}

void ReadinessTable::awaited(const model::ProxyKey& proxy) {
  const ProxyId40 id = id_of(proxy);
  std::erase_if(settling_, [&](const Acknowledged& one) { return one.proxy == id; });
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = local_.try_emplace(id);
  changed_ |= fresh || at->second.serving != 0;
  at->second = {};
}

void ReadinessTable::acknowledged(const model::ProxyKey& proxy, const model::Serving& serving) {
  settling_.push_back({clock_.steady_now(), id_of(proxy), digest_of(serving)});
}

void ReadinessTable::disconnected(const model::ProxyKey& proxy) {
  const std::lock_guard lock(mutex_);
  if (Local* local = find_in(local_, id_of(proxy))) local->gone = clock_.steady_now();
}

bool ReadinessTable::settle() {
  bool ready = false;
  {
    const SteadyTime now = clock_.steady_now();
    const std::lock_guard lock(mutex_);
    for (; !settling_.empty() && now - settling_.front().at >= kSettle; settling_.pop_front()) {
      const Acknowledged& one = settling_.front();
      Local* local = find_in(local_, one.proxy);
      if (!local || local->serving == one.serving) continue;
      local->serving = one.serving;
      ready = changed_ = true;
    }
  }
  publish();
  if (ready) ready_.notify();
  return !settling_.empty();
}

void ReadinessTable::tick() {
  {
    const SteadyTime now = clock_.steady_now();
    const std::lock_guard lock(mutex_);
    changed_ |= std::erase_if(local_, [&](const auto& entry) {
                  const auto& gone = entry.second.gone;
                  return gone && now - *gone >= kReturn;
                }) > 0;
    std::erase_if(left_, [&](const auto& entry) { return now - entry.first >= kReturn; });
  }
  publish();
  if (board_) read();  // it may have been unreadable when it told of a change
}

void ReadinessTable::publish() {
  if (!board_ || !changed_) return;
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    text = text_of(local_);
  }
  // A text that is refused is tried again with the next tick.
  changed_ = !board_->publish(kTopic, std::move(text)).ok();
}

std::string ReadinessTable::text_of(const std::map<ProxyId40, Local>& proxies) {
  std::string bytes;
  for (const auto& [id, local] : proxies) {
    if (bytes.size() == kMaxPublished * kEntryBytes) break;
    add_number(bytes, id, kNameBytes);
    add_number(bytes, local.serving, kServingBytes);
  }
  return bytes.empty() ? std::string() : std::string(kSetVersion) + base64(bytes);
}

// A text of another version reads as empty.
ReadinessTable::Set ReadinessTable::parse(std::string_view text) {
  Set set;
  if (!text.starts_with(kSetVersion)) return set;
  const std::string bytes = from_base64(text.substr(kSetVersion.size())).value_or("");
  for (std::size_t at = 0; at + kEntryBytes <= bytes.size(); at += kEntryBytes)
    set.emplace(number_at(bytes, at, kNameBytes),
                static_cast<Serving24>(number_at(bytes, at + kNameBytes, kServingBytes)));
  return set;
}

// If the board cannot be read, the last texts count: their proxies are most likely still there.
void ReadinessTable::read() {
  auto said = board_->read(kTopic);
  if (!said) return;
  {
    const std::lock_guard lock(mutex_);
    if (texts_ == *said) return;
    for (const auto& [replica, text] : *said) {
      const std::string* before = find_in(texts_, replica);
      if (!before || *before != text) others_[replica] = parse(text);
    }
    std::erase_if(others_, [&](auto& entry) {
      if (said->contains(entry.first)) return false;
      left_.emplace_back(clock_.steady_now(), std::move(entry.second));
      return true;
    });
    texts_ = *std::move(said);
  }
  ready_.notify();
}

model::Readiness ReadinessTable::readiness_of(const model::ProxyKey& proxy,
                                              const model::Serving& serving) const {
  const ProxyId40 id = id_of(proxy);
  const Serving24 wanted = digest_of(serving);
  auto readiness = model::Readiness::kUnknown;
  const std::lock_guard lock(mutex_);
  const auto look = [&](Serving24 acknowledged) {
    if (acknowledged == wanted) readiness = model::Readiness::kReady;
    if (readiness == model::Readiness::kUnknown) readiness = model::Readiness::kNotReady;
  };
  // A stream here is newer than the replica's text, which other replicas may still show.
  if (const Local* local = find_in(local_, id)) {
    look(local->serving);
    if (!local->gone) return readiness;
  }
  for (const auto& [replica, set] : others_)
    if (const Serving24* acknowledged = find_in(set, id)) look(*acknowledged);
  if (readiness != model::Readiness::kUnknown) return readiness;
  for (const auto& [since, set] : left_)
    if (const Serving24* acknowledged = find_in(set, id)) look(*acknowledged);
  return readiness;
}

}  // namespace osm::inline v1::ads
