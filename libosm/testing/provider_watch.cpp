#include "testing/provider_watch.hpp"

#include <algorithm>

#include "base/guarded.hpp"

namespace osm::inline v1::testing {
namespace {

constexpr std::size_t kMaxShown = 4;
constexpr std::size_t kMaxAnnounced = 10'000;  // limit of recorded announcements in a flood

}  // namespace

std::string text_of(const Known& known) {
  if (!known) return "unknown";
  std::string out = "[";
  for (std::size_t i = 0; i < known->size() && i < kMaxShown; ++i) {
    const Endpoint& endpoint = (*known)[i];
    out += (i == 0 ? "" : ", ") + endpoint.address + ':' + std::to_string(number(endpoint.port)) +
           " as " + endpoint.identity.str();
    if (!endpoint.service_port.empty()) out += " for " + endpoint.service_port;
    if (endpoint.zone) out += " zone " + *endpoint.zone;
    if (endpoint.weight) out += " weight " + std::to_string(*endpoint.weight);
    if (!endpoint.healthy) out += " unhealthy";
  }
  if (known->size() > kMaxShown)
    out += " and " + std::to_string(known->size() - kMaxShown) + " more";
  return out + ']';
}

Known sorted(Known known) {
  if (known) std::sort(known->begin(), known->end());
  return known;
}

std::string Answer::text() const {
  return threw.empty() ? text_of(known) : "threw '" + threw + "'";
}

ProviderWatch::ProviderWatch(EndpointsProvider& inner, const std::string& suffix) : inner_(inner) {
  id_ = noting("id()", [&] { return inner_.id(); }).value_or("provider") + suffix;
  auto subscribed = noting("subscribe()", [this] {
    return inner_.subscribe([this](const std::vector<ServiceName>& changed) { hear(changed); });
  });
  // Otherwise it is recorded, and a waiting clause will see no announcement.
  if (subscribed.ok()) subscription_ = *std::move(subscribed);
}

template <class Call>
auto ProviderWatch::noting(const std::string& name, Call call) const -> Result<decltype(call())> {
  auto answer = guarded(call);
  if (!answer.ok()) {
    std::lock_guard lock(mutex_);
    thrown_.insert(name + " threw '" + answer.error().message + '\'');
  }
  return answer;
}

Answer ProviderWatch::ask(const ServiceName& service) const {
  auto known = list(service);
  if (!known.ok()) return {std::nullopt, known.error().message};
  return {sorted(*std::move(known)), {}};
}

Result<bool> ProviderWatch::ask_synced() const {
  return noting("has_synced()", [&] { return inner_.has_synced(); });
}

Result<bool> ProviderWatch::ask_healthy() const {
  return noting("healthy()", [&] { return inner_.healthy(); });
}

std::optional<std::vector<Endpoint>> ProviderWatch::list_endpoints_for_service(
    const ServiceName& service) const {
  Known known = or_throw(list(service));
  if (rewrite_) rewrite_(service, known);
  return known;
}

Result<Known> ProviderWatch::list(const ServiceName& service) const {
  return noting("list_endpoints_for_service(" + service.str() + ")",
                [&] { return inner_.list_endpoints_for_service(service); });
}

void ProviderWatch::on_announcement(std::function<void(const std::vector<ServiceName>&)> hook) {
  std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void ProviderWatch::hear(const std::vector<ServiceName>& changed) {
  if (++running_ > 1) overlapped_ = true;
  std::function<void(const std::vector<ServiceName>&)> hook;
  {
    std::lock_guard lock(mutex_);
    if (announced_.size() < kMaxAnnounced) announced_.insert(changed.begin(), changed.end());
    hook = hook_;
  }
  if (hook) hook(changed);
  if (!held_back_) to_mesh_.notify(changed);
  --running_;
}

std::set<ServiceName> ProviderWatch::announced() const {
  std::lock_guard lock(mutex_);
  return announced_;
}

void ProviderWatch::forget_announced() {
  std::lock_guard lock(mutex_);
  announced_.clear();
}

std::vector<std::string> ProviderWatch::thrown() const {
  std::lock_guard lock(mutex_);
  return {thrown_.begin(), thrown_.end()};
}

}  // namespace osm::inline v1::testing
