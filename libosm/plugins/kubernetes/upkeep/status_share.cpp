#include "kubernetes/upkeep/status_share.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/digest.hpp"
#include "base/numbers.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr std::string_view kComplete = "1 complete";
constexpr std::string_view kCut = "1 cut";
constexpr std::size_t kIdDigits = 12;  // among 10,000 objects, two collide once in 5,000,000 cases

using Phase = std::pair<ObjectPhase, std::string_view>;
constexpr std::array<Phase, 4> kPhases{{{ObjectPhase::kApplied, "applied"},
                                        {ObjectPhase::kPending, "pending"},
                                        {ObjectPhase::kRefused, "refused"},
                                        {ObjectPhase::kRejected, "rejected"}}};

std::string_view phase_name(ObjectPhase phase) {
  return std::ranges::find(kPhases, phase, &Phase::first)->second;
}

std::string_view take(std::string_view& text, char end) {
  const auto at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto read = number_of<Number>(take(text, ' '));
  number = read.value_or(Number{});
  return read.has_value();
}

bool parse_line(std::string_view line, Shares& shares) {
  const std::string id(take(line, ' '));
  Share share;
  if (id.size() != kIdDigits || !take_number(line, share.generation)) return false;
  const std::string_view phase = take(line, ' ');
  const auto at = std::ranges::find(kPhases, phase, &Phase::second);
  if (at == kPhases.end()) return false;
  share.phase = at->first;
  if (!take_number(line, share.applied) || !take_number(line, share.concerned)) return false;
  shares.objects.emplace(id, share);
  return true;
}

// The phase that describes the problem better.
ObjectPhase worse(ObjectPhase ours, ObjectPhase theirs) {
  // Rejected by that replica only: a proxy there refused it.
  if (theirs == ObjectPhase::kRejected) theirs = ObjectPhase::kRefused;
  if (ours == ObjectPhase::kRejected || theirs == ObjectPhase::kApplied) return ours;
  return ours == ObjectPhase::kRefused ? ours : theirs;
}

}  // namespace

std::string share_id(const ObjectKey& key) {
  return digest_of(key.str()).hex().substr(0, kIdDigits);
}

std::string text_of(const std::map<std::string, Share, std::less<>>& shares,
                    std::size_t max_bytes) {
  std::string lines;
  bool complete = true;
  for (const auto& [id, share] : shares) {
    const std::string line = fmt::format("\n{} {} {} {} {}", id, share.generation,
                                         phase_name(share.phase), share.applied, share.concerned);
    complete = kComplete.size() + lines.size() + line.size() <= max_bytes;
    if (!complete) break;
    lines += line;
  }
  return std::string(complete ? kComplete : kCut) + lines;
}

Shares parse_shares(std::string_view text) {
  Shares shares;
  const std::string_view head = take(text, '\n');
  if (head != kComplete && head != kCut) return {{}, false};
  shares.complete = head == kComplete;
  while (!text.empty())
    if (!parse_line(take(text, '\n'), shares)) shares.complete = false;
  return shares;
}

ShareSum sum_of(const std::string& id, const Share& ours,
                const std::vector<const Shares*>& others) {
  ShareSum sum{.share = ours};
  std::vector<const Share*> shares{&ours};
  for (const Shares* other : others) {
    const auto at = other->objects.find(id);
    if (at != other->objects.end()) {
      shares.push_back(&at->second);
      sum.share.generation = std::max(sum.share.generation, at->second.generation);
    } else {
      ++(other->complete ? sum.behind : sum.mute);
    }
  }
  sum.share.applied = sum.share.concerned = 0;
  for (const Share* share : shares) {
    const bool behind = share->generation != sum.share.generation;
    sum.behind += behind;
    sum.share.concerned += share->concerned;
    // That replica applied another version.
    if (behind) continue;
    sum.share.applied += share->applied;
    sum.share.phase = worse(sum.share.phase, share->phase);
  }
  if (sum.behind > 0 && sum.share.phase == ObjectPhase::kApplied)
    sum.share.phase = ObjectPhase::kPending;
  return sum;
}

}  // namespace osm::inline v1::kubernetes
