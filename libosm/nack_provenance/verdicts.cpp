#include "nack_provenance/verdicts.hpp"

#include <algorithm>
#include <utility>

#include "base/maps.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

// "refused by 2 of 14 connected proxies: client/c1 (CDS): ...; they are served without it until it
// changes"
std::string cause_of(const std::map<model::ProxyKey, Verdict>& by, std::size_t connected) {
  const std::size_t all = std::max(by.size(), connected);
  std::string text = "refused by " + std::to_string(by.size()) + " of " + std::to_string(all) +
                     (all == 1 ? " connected proxy" : " connected proxies");
  std::vector<const Verdict*> verdicts;
  for (const auto& [proxy, verdict] : by) verdicts.push_back(&verdict);
  std::ranges::sort(verdicts, {}, [](const Verdict* one) { return one->workload; });
  const auto keeping = static_cast<std::size_t>(
      std::ranges::count_if(verdicts, [](const Verdict* one) { return one->keeping; }));
  for (std::size_t i = 0; i < std::min(Verdicts::kNamed, verdicts.size()); ++i)
    text += (i == 0 ? ": " : "; ") + verdicts[i]->text();
  if (verdicts.size() > Verdicts::kNamed)
    text += "; and " + std::to_string(verdicts.size() - Verdicts::kNamed) + " more";
  if (keeping == by.size()) return text + "; they keep their last good content until it changes";
  if (keeping == 0) return text + "; they are served without it until it changes";
  return text + "; until it changes " + std::to_string(keeping) +
         " of them keep their last good content, and the others are served without it";
}

}  // namespace

std::string Verdict::text() const {
  return workload.str() + " (" + std::string(xds_type_text(type)) + "): " + detail;
}

Verdicts::Verdicts(std::string osm_namespace,
                   std::function<std::size_t(const ObjectKey&)> connected)
    : osm_namespace_(std::move(osm_namespace)), connected_(std::move(connected)) {
  all_.publish(std::make_shared<const Refusals>());
}

Refusals Verdicts::list(Refusals elsewhere) const {
  Refusals all = *all_.load();
  for (auto& [object, by] : elsewhere) all[object].merge(by);
  return all;
}

std::vector<Problem> Verdicts::problems(Refusals elsewhere) const {
  std::vector<Problem> problems;
  for (const auto& [object, by] : list(std::move(elsewhere))) {
    Problem& problem = problems.emplace_back();
    problem.code = ErrorCode::kRefusedByProxy;
    problem.object = named(object);
    problem.cause = cause_of(by, connected_(object));
  }
  return problems;
}

std::map<model::ProxyKey, Verdict> Verdicts::refusing(const ObjectKey& object) const {
  const auto all = all_.load();
  const auto* by = find_in(*all, object);
  return by ? *by : std::map<model::ProxyKey, Verdict>();
}

void Verdicts::publish(Refusals all) {
  if (all != *all_.load()) all_.publish(std::make_shared<const Refusals>(std::move(all)));
}

}  // namespace osm::inline v1::nack_provenance
