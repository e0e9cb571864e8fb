// The texts of a root rotation, which anybody may have written who may write the store or the
// board: a record is refused or reads back as itself, and a report counts only if it says that its
// replica follows the record.
//
//   input: '0', then a record; or '1', the number of workloads, then a line per replica: its
//   report.
#include <algorithm>

#include "fuzz/fuzz.hpp"
#include "root_rotation/rotation_text.hpp"

namespace osm::fuzz {
namespace {

using namespace root_rotation;

void read_record(const std::string& text) {
  const auto records = parse_records(text);
  if (!records.ok()) {
    require(records.error().code == ErrorCode::kInvalidSyntax, "a refusal says its kind");
    return;
  }
  const auto again = parse_records(to_text(*records));
  require(again.ok() && *again == *records, "a record reads back as itself", text);
  require(effect_of(*again) == effect_of(*records), "equal records have one effect");

  const TrustDomains domains = domains_of(*records, TrustDomain("cluster.local"));
  require(std::ranges::includes(domains.allowed, domains.accepted),
          "a domain that opens connections may keep them open", text);
  for (const RootRecord& root : *records) {
    require(!root.name.empty(), "a root has a name");
    require(is_trusted(root.state) ==
                (root.state != RootState::kInactive && root.state != RootState::kClosing),
            "a root that is neither new nor at its end is trusted");
    require(!is_trusted(root.state) || std::ranges::count(domains.accepted, root.trust_domain) == 1,
            "the domain of a trusted root is accepted once", text);
  }
}

void read_reports(Choices& choices) {
  const std::string effect = "the record in force";
  const std::size_t workloads = choices.below(100);
  std::map<std::string, std::string> views;
  bool all_follow = true;
  RotationEvidence wanted;
  while (!choices.empty() && views.size() < 10) {
    const std::string text = choices.line();
    views["replica-" + std::to_string(views.size())] = text;
    const auto view = parse_view(text);
    if (view.ok()) {
      const auto again = parse_view(to_text(*view));
      require(again.ok() && *again == *view, "a report reads back as itself", text);
    }
    const bool follows = view.ok() && view->follows == effect;
    all_follow = all_follow && follows;
    if (!follows) continue;
    wanted.bundle_lag += view->proxies.bundle_lag;
    wanted.leaf_lag += view->proxies.leaf_lag;
    wanted.own_lag += view->own_lag;
  }
  const RotationEvidence seen = sum_up(views, effect, workloads);
  require(seen.complete == (all_follow && !views.empty()),
          "evidence is complete if every replica follows the record");
  require(seen.complete == seen.waiting_for.empty(), "a replica that is waited for has a name");
  require(seen.bundle_lag == wanted.bundle_lag && seen.leaf_lag == wanted.leaf_lag &&
              seen.own_lag == wanted.own_lag,
          "only replicas that follow the record count");
  require(seen.absent <= workloads, "no more workloads are absent than there are");
}

void run(Choices choices) {
  if (choices.flag()) return read_reports(choices);
  read_record(std::string(choices.rest()));
}

}  // namespace
}  // namespace osm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  osm::fuzz::run(osm::fuzz::Choices(osm::fuzz::text_of(data, size)));
  return 0;
}
