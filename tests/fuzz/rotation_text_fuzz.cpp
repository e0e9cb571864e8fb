// The texts of a root rotation, which anybody may have written who may write the store or the
// board: a record is refused or reads back as itself, and a report counts only if it says that its
// replica follows the record.
//
//   input: '0', then a record; or '1', the number of workloads, then a line per replica: its
//   report.
#include <algorithm>
#include <set>

#include "fuzz/fuzz.hpp"
#include "root_rotation/rotation_text.hpp"

using namespace osm;
using namespace osm::fuzz;

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
  const std::set<ProxyNumber> met = parse_met(text);
  require(parse_met(to_text(*records, met)) == met, "met proxies read back as themselves", text);

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

// The proxies of the mesh: a fixed one for each number.
Table<model::WorkloadEntry> workloads_of(std::size_t count) {
  std::vector<std::shared_ptr<const model::WorkloadEntry>> entries;
  for (std::size_t i = 0; i < count; ++i) {
    model::WorkloadEntry entry;
    entry.proxy = {"shop", ProxyId("box-" + std::to_string(i)), WorkloadKind::kMachine};
    entries.push_back(std::make_shared<const model::WorkloadEntry>(std::move(entry)));
  }
  return Table<model::WorkloadEntry>(std::move(entries));
}

void read_reports(Choices& choices) {
  const std::string effect = "the record in force";
  const auto workloads = workloads_of(choices.below(100));
  std::map<std::string, std::string> views;
  bool all_follow = true;
  std::set<ProxyNumber> reported;
  std::size_t own_lag = 0, lacking = 0, omitted = 0;
  while (!choices.empty() && views.size() < 10) {
    const std::string text = choices.line();
    views["replica-" + std::to_string(views.size())] = text;
    const auto view = parse_view(text);
    all_follow = all_follow && view.ok() && view->follows == effect;
    if (!view.ok()) continue;
    const auto again = parse_view(to_text(*view));
    require(again.ok() && *again == *view, "a report reads back as itself", text);
    own_lag += view->own_lag;
    omitted += view->omitted;
    for (const auto& [number, flags] : view->proxies) {
      reported.insert(number);
      lacking += (flags & (kLacksBundle | kLacksLeaf)) != 0;
    }
  }
  const ReplicaViews all = sum_up(views, effect, workloads, {});
  const RotationEvidence& seen = all.evidence;
  require(seen.complete == (all_follow && !views.empty()),
          "evidence is complete if every replica follows the record");
  require(seen.complete == seen.waiting_for.empty(), "a replica that is waited for has a name");
  require(seen.own_lag == own_lag, "each replica's own certificates count");
  const std::size_t any = seen.any_lag - omitted;
  require(any <= lacking && any <= reported.size(),
          "a proxy counts once, at however many replicas it lacks something");
  require(seen.bundle_lag - omitted <= any && seen.leaf_lag - omitted <= any,
          "what lacks one thing lacks something");
  require(seen.absent <= seen.workloads && seen.workloads == workloads.size(),
          "no more workloads are absent than there are");
  require(seen.young || seen.absent <= reported.size(),
          "only workloads whose proxy was connected once are absent");
  require(std::ranges::includes(reported, all.met), "nobody met who is not reported");
  std::map<ProxyNumber, std::uint8_t> known;
  for (const ProxyNumber number : all.met) known[number] = 0;
  const ReplicaViews later = sum_up({}, effect, workloads, known);
  require(later.met == all.met && later.evidence.absent == all.met.size(),
          "who was connected once is absent when no replica reports it");
}

void run(Choices choices) {
  if (choices.flag()) return read_reports(choices);
  read_record(std::string(choices.rest()));
}

const bool kAdded = add("rotation_text", [](std::string_view input) { run(Choices(input)); });

}  // namespace
