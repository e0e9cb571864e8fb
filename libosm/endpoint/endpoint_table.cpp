#include "endpoint/endpoint_table.hpp"

#include <algorithm>
#include <utility>

#include "base/guarded.hpp"
#include "base/maps.hpp"

namespace osm::inline v1::endpoint {

EndpointTable::EndpointTable(std::vector<ProviderEntry> providers) {
  for (const ProviderEntry& entry : providers) {
    Source source{.provider = entry.provider, .status = {}, .answers = {}, .unanswered = {}};
    source.status.required = entry.required;
    const auto id = guarded([&] { return entry.provider->id(); });
    if (!id.ok()) source.status.failure = id.error().message;
    source.status.id = id.value_or('#' + std::to_string(sources_.size() + 1));
    sources_.push_back(std::move(source));
  }
}

bool EndpointTable::refresh_status() {
  bool newly_synced = false;
  for (Source& source : sources_) {
    const auto synced = guarded([&] { return source.provider->has_synced(); });
    const auto healthy = guarded([&] { return source.provider->healthy(); });
    std::string failure;
    for (const auto* asked : {&synced, &healthy})
      if (!asked->ok()) failure = asked->error().message;
    if (synced.value_or(false) && !std::exchange(source.status.synced, true)) newly_synced = true;
    source.status.stale = !healthy.value_or(false);
    if (!failure.empty() || source.unanswered.empty()) source.status.failure = std::move(failure);
  }
  return newly_synced;
}

void EndpointTable::set_monitored_namespaces(std::set<std::string> namespaces) {
  namespaces_ = std::move(namespaces);
}

void EndpointTable::ask(Source& source, const ServiceName& service) {
  bool outside = false;
  auto answer = guarded([&] {
    outside = source.provider->served_outside(service);
    return source.provider->list_endpoints_for_service(service);
  });
  if (!answer) {  // the last answer stays
    source.unanswered.insert(service);
    source.status.failure = answer.error().message;
    return;
  }
  source.unanswered.erase(service);
  put_or_erase(source.answers, service, *std::move(answer));
  if (outside) {
    source.outside.insert(service);
  } else {
    source.outside.erase(service);
  }
}

std::set<ServiceName> EndpointTable::set_orders(std::map<ServiceName, ServiceProvider> orders) {
  std::set<ServiceName> differ;
  for (const auto& [service, order] : orders) {
    const ServiceProvider* const before = find_in(orders_, service);
    if (!before || *before != order) differ.insert(service);
  }
  for (const auto& [service, order] : orders_)
    if (!orders.contains(service)) differ.insert(service);
  orders_ = std::move(orders);
  std::erase_if(differ, [&](const ServiceName& service) { return !merge(service); });
  return differ;
}

std::set<ServiceName> EndpointTable::read(const std::set<ServiceName>& services) {
  std::set<ServiceName> all = services;
  for (Source& source : sources_) {
    if (!source.status.synced) continue;
    std::set<ServiceName> asked = services;
    asked.insert(source.unanswered.begin(), source.unanswered.end());
    for (const ServiceName& service : asked) {
      step_();
      ask(source, service);
    }
    if (source.unanswered.empty()) source.status.failure.clear();
    all.merge(asked);
  }
  std::set<ServiceName> changed;
  for (const ServiceName& service : all)
    if (merge(service)) changed.insert(service);
  return changed;
}

std::set<ServiceName> EndpointTable::forget(const std::set<ServiceName>& services) {
  std::set<ServiceName> changed;
  for (const ServiceName& service : services) {
    for (Source& source : sources_) {
      source.answers.erase(service);
      source.outside.erase(service);
      source.unanswered.erase(service);
    }
    if (services_.erase(service) > 0) changed.insert(service);
  }
  return changed;
}

std::vector<EndpointTable::Ranked> EndpointTable::ranked(const ServiceName& service) const {
  const ServiceProvider* const order = find_in(orders_, service);
  std::vector<Ranked> first;
  std::vector<Ranked> others;
  if (order)
    for (const auto& [id, weight] : order->providers)
      for (const Source& source : sources_)
        if (source.status.id == id) first.push_back({&source, weight});
  const auto is_first = [&](const Source& source) {
    return std::any_of(first.begin(), first.end(),
                       [&](const Ranked& ranked) { return ranked.source == &source; });
  };
  if (!order || !order->excludes_others)
    for (const Source& source : sources_)
      if (!is_first(source)) others.push_back({&source, std::nullopt});
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

bool EndpointTable::merge(const ServiceName& service) {
  const std::vector<Ranked> sources = ranked(service);
  std::vector<ProviderAnswer> answers;
  for (const auto& [source, weight] : sources)
    if (const auto* endpoints = find_in(source->answers, service))
      answers.push_back({.provider = source->status.id, .endpoints = *endpoints, .weight = weight});
  if (answers.empty()) return services_.erase(service) > 0;

  MergedService merged = merge_answers(service, answers, namespaces_);
  for (const auto& [source, weight] : sources)
    merged.served_outside |= source->outside.contains(service);
  auto& entry = services_[service];
  if (entry && *entry == merged) return false;
  entry = std::make_shared<const MergedService>(std::move(merged));
  return true;
}

std::shared_ptr<const MergedService> EndpointTable::find(const ServiceName& service) const {
  const auto* found = find_in(services_, service);
  return found ? *found : nullptr;
}

std::vector<ProviderStatus> EndpointTable::providers() const {
  std::vector<ProviderStatus> out;
  for (const Source& source : sources_) out.push_back(source.status);
  return out;
}

std::vector<std::string> EndpointTable::waiting_for() const {
  std::vector<std::string> out;
  for (const Source& source : sources_)
    if (source.status.required && !source.status.synced)
      out.push_back("endpoints provider " + source.status.id);
  return out;
}

bool EndpointTable::has_failures() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const Source& source) { return !source.status.failure.empty(); });
}

std::vector<Problem> EndpointTable::problems() const {
  std::vector<Problem> out;
  for (const auto& [name, service] : services_)
    out.insert(out.end(), service->problems.begin(), service->problems.end());
  for (const Source& source : sources_) {
    const ProviderStatus& status = source.status;
    const auto add = [&](ErrorCode code, std::string cause) {
      out.push_back({code, {}, "endpoints provider " + status.id, 0, {}, std::move(cause)});
    };
    if (!status.failure.empty()) {
      add(ErrorCode::kInternal,
          "failed: " + status.failure + "; its last endpoints are kept and it is asked again");
    } else if (!status.synced) {
      add(ErrorCode::kNotReady, "has not listed its endpoints yet; they are left out");
    } else if (status.stale) {
      add(ErrorCode::kUnavailable, "its platform cannot be reached; its last endpoints are kept");
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace osm::inline v1::endpoint
