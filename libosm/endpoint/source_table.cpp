#include "endpoint/source_table.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::endpoint {

SourceTable::SourceTable(const std::vector<ProviderEntry>& providers) {
  for (const ProviderEntry& entry : providers) sources_.push_back({.provider = entry.provider});
}

void SourceTable::ask(Source& source, const ServiceName& service) {
  step_();
  const auto answer = guarded([&] { return source.provider->list_source_addresses(service); });
  if (!answer) {
    source.unanswered.insert(service);
    source.thrown = answer.error().message;
    return;
  }
  source.unanswered.erase(service);
  std::set<std::string>& addresses = source.answers[service];
  addresses.clear();
  for (const std::string& address : *answer)
    if (model::is_ipv4(address)) addresses.insert(address);
}

bool SourceTable::read(const std::set<ServiceName>& wanted, const std::set<ServiceName>& announced,
                       bool all) {
  Addresses merged;
  for (const ServiceName& service : wanted) merged[service];
  for (Source& source : sources_) {
    const auto unwanted = [&](const auto& entry) { return !wanted.contains(entry.first); };
    std::erase_if(source.answers, unwanted);
    std::erase_if(source.unanswered,
                  [&](const ServiceName& service) { return !wanted.contains(service); });
    for (const ServiceName& service : wanted)
      if (all || announced.contains(service) || !source.answers.contains(service) ||
          source.unanswered.contains(service))
        ask(source, service);
    for (const auto& [service, addresses] : source.answers)
      merged[service].insert(addresses.begin(), addresses.end());
  }
  return std::exchange(merged_, merged) != merged;
}

bool SourceTable::has_failures() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const Source& source) { return !source.unanswered.empty(); });
}

std::vector<std::string> SourceTable::failures() const {
  std::vector<std::string> out;
  for (const Source& source : sources_)
    out.push_back(source.unanswered.empty() ? "" : source.thrown);
  return out;
}

}  // namespace osm::inline v1::endpoint
