// Statuses that replicas tell each other: a text reads back as itself, a text that was cut
// says so, and a policy counts as programmed only if every replica has said so.
//
//   input: a line: this replica's own share of the first object; '0' to '9', the bytes that fit
//   (times 20); then replicas' texts, apart by a line "--".
#include <algorithm>

#include "fuzz/fuzz.hpp"
#include "kubernetes/upkeep/status_share.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using namespace kubernetes;

const std::string kId = "a1b2c3d4e5f6";

bool is_part_of(const Shares& part, const Shares& whole) {
  return std::ranges::all_of(part.objects, [&](const auto& one) {
    const auto at = whole.objects.find(one.first);
    return at != whole.objects.end() && at->second == one.second;
  });
}

Shares read(std::string_view text, std::size_t fits) {
  const Shares shares = parse_shares(text);
  const Shares again = parse_shares(text_of(shares.objects, text.size() + 1'000'000));
  require(again.complete && again.objects == shares.objects, "statuses read back as themselves");

  const std::string cut = text_of(shares.objects, fits);
  require(cut.size() <= std::max(fits, std::string_view("1 complete").size()),
          "a text is as long as it may be at most", cut);
  const Shares part = parse_shares(cut);
  require(is_part_of(part, shares), "a cut text says nothing new", cut);
  require(part.complete == (part.objects.size() == shares.objects.size()),
          "a text that was cut says so", cut);
  return shares;
}

void sum(const Share& ours, const std::vector<Shares>& others) {
  std::vector<const Shares*> heard;
  bool all_applied = ours.phase == ObjectPhase::kApplied;
  for (const Shares& other : others) {
    heard.push_back(&other);
    const auto at = other.objects.find(kId);
    if (at == other.objects.end()) {
      all_applied = all_applied && !other.complete;
    } else {
      all_applied = all_applied && at->second.phase == ObjectPhase::kApplied &&
                    at->second.generation == ours.generation;
    }
  }
  const ShareSum sum = sum_of(kId, ours, heard);
  require((sum.share.phase == ObjectPhase::kApplied) == all_applied,
          "an object is programmed when every replica says so");
  require(sum.behind + sum.mute <= heard.size() + 1, "each replica counts once");
  require(sum.share.generation >= ours.generation, "the newest generation is the object's");
  require(sum_of(kId, ours, {}).share == ours, "a replica alone has its own status");
}

void run(Choices choices) {
  const Shares own = parse_shares("1 complete\n" + kId + ' ' + choices.line());
  const std::size_t fits = choices.below(10) * 20;
  choices.line();
  std::string_view rest = choices.rest();
  std::vector<Shares> others;
  while (!rest.empty() && others.size() < 8) {
    constexpr std::string_view kApart = "\n--\n";
    const auto end = std::min(rest.find(kApart), rest.size());
    others.push_back(read(rest.substr(0, end), fits));
    rest.remove_prefix(std::min(end + kApart.size(), rest.size()));
  }
  sum(own.objects.empty() ? Share{} : own.objects.begin()->second, others);
}

const bool kAdded = add("status_share", [](std::string_view input) { run(Choices(input)); });

}  // namespace
