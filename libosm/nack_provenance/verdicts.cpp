#include "nack_provenance/verdicts.hpp"

#include <algorithm>
#include <utility>

namespace osm::inline v1::nack_provenance {
namespace {

bool same_value(const model::SpecObjects& value, const model::SpecObjects& now,
                const ObjectKey& object) {
  if (object == model::mesh_config_key()) return value.config.proxy == now.config.proxy;
  bool same = true;
  model::for_each_list([&](auto list, auto) {
    same = same && model::same(model::find(value.*list, object), model::find(now.*list, object));
  });
  return same;
}

}  // namespace

// "refused by 2 of 14 proxies: client/c1 (CDS): ...; they are served without it until it changes"
std::string Verdicts::cause_of(const ObjectKey& object, const Refused& refused) const {
  const std::size_t count = refused.by.size();
  const std::size_t all = std::max(count, concerned_(object));
  std::string text = "refused by " + std::to_string(count) + " of " + std::to_string(all) +
                     (all == 1 ? " proxy" : " proxies");
  std::vector<const Verdict*> verdicts;
  std::size_t keeping = 0;
  for (const auto& [proxy, verdict] : refused.by) {
    keeping += verdict.frozen || keeping_.contains(proxy);
    verdicts.push_back(&verdict);
  }
  std::ranges::sort(verdicts, {}, [](const Verdict* one) { return one->workload; });
  for (std::size_t i = 0; i < std::min(kNamed, count); ++i)
    text += (i == 0 ? ": " : "; ") + verdicts[i]->workload.str() + " (" +
            std::string(xds_type_text(verdicts[i]->type)) +
            "): " + verdicts[i]->detail.substr(0, kDetailBytes);
  if (count > kNamed) text += "; and " + std::to_string(count - kNamed) + " more";
  if (keeping == count) return text + "; they keep their last good content until it changes";
  if (keeping == 0) return text + "; they are served without it until it changes";
  return text + "; until it changes " + std::to_string(keeping) +
         " of them keep their last good content, and the others are served without it";
}

std::vector<Problem> Verdicts::problems() const {
  const std::lock_guard lock(mutex_);
  std::vector<Problem> problems;
  for (const auto& [object, one] : refused_) {
    Problem problem;
    problem.code = ErrorCode::kRefusedByProxy;
    problem.object = named(object);
    problem.cause = cause_of(object, one);
    problems.push_back(std::move(problem));
  }
  return problems;
}

std::map<model::ProxyKey, std::string> Verdicts::refusing(const ObjectKey& object) const {
  const std::lock_guard lock(mutex_);
  std::map<model::ProxyKey, std::string> out;
  const auto at = refused_.find(object);
  if (at != refused_.end())
    for (const auto& [proxy, verdict] : at->second.by) out.emplace(proxy, verdict.detail);
  return out;
}

void Verdicts::add(const model::ProxyKey& proxy, const ObjectKey& object, Verdict verdict,
                   const model::SpecObjects& objects) {
  {
    const std::lock_guard lock(mutex_);
    Refused& refused = refused_[object];
    refused.value = model::only(objects, object);
    refused.by.insert_or_assign(proxy, std::move(verdict));
  }
  changed_.notify();
}

void Verdicts::set_keeping(const model::ProxyKey& proxy, bool keeping) {
  {
    const std::lock_guard lock(mutex_);
    if (keeping == keeping_.contains(proxy)) return;
    if (keeping)
      keeping_.insert(proxy);
    else
      keeping_.erase(proxy);
  }
  changed_.notify();
}

std::set<model::ProxyKey> Verdicts::lift(const model::SpecObjects& objects) {
  std::set<model::ProxyKey> proxies;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(refused_, [&](const auto& entry) {
      if (same_value(entry.second.value, objects, entry.first)) return false;
      for (const auto& [proxy, verdict] : entry.second.by) proxies.insert(proxy);
      return true;
    });
  }
  if (!proxies.empty()) changed_.notify();
  return proxies;
}

void Verdicts::forget(const model::ProxyKey& proxy) {
  {
    const std::lock_guard lock(mutex_);
    keeping_.erase(proxy);
    for (auto& [object, refused] : refused_) refused.by.erase(proxy);
    std::erase_if(refused_, [](const auto& entry) { return entry.second.by.empty(); });
  }
  changed_.notify();
}

RefusedObjects Verdicts::of(const model::ProxyKey& proxy) const {
  const std::lock_guard lock(mutex_);
  RefusedObjects out;
  for (const auto& [object, refused] : refused_) {
    const auto at = refused.by.find(proxy);
    if (at != refused.by.end()) (at->second.frozen ? out.frozen : out.left_out).insert(object);
  }
  return out;
}

std::set<model::ProxyKey> Verdicts::proxies() const {
  const std::lock_guard lock(mutex_);
  std::set<model::ProxyKey> out;
  for (const auto& [object, refused] : refused_)
    for (const auto& [proxy, verdict] : refused.by) out.insert(proxy);
  return out;
}

std::set<ObjectKey> Verdicts::objects() const {
  const std::lock_guard lock(mutex_);
  std::set<ObjectKey> out;
  for (const auto& [object, refused] : refused_) out.insert(object);
  return out;
}

}  // namespace osm::inline v1::nack_provenance
