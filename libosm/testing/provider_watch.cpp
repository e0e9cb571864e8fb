#include "testing/provider_watch.hpp"

#include <algorithm>
#include <exception>

namespace osm::inline v1::testing {
namespace {

constexpr std::size_t kMaxShown = 4;
constexpr std::size_t kMaxAnnounced = 10'000;  // limit of recorded announcements in a flood
constexpr const char* kStranger = "an exception that is no std::exception";

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

std::string Answer::text() const {
  return threw.empty() ? text_of(known) : "threw '" + threw + "'";
}

ProviderWatch::ProviderWatch(EndpointsProvider& inner, const std::string& suffix) : inner_(inner) {
  try {
    id_ = noting("id()", [&] { return inner_.id(); }) + suffix;
  } catch (...) {
    id_ = "provider" + suffix;
  }
  try {
    subscription_ = noting("subscribe()", [&] {
      return inner_.subscribe([this](const std::vector<ServiceName>& changed) { hear(changed); });
    });
  } catch (...) {
    // Recorded; a waiting clause will see no announcement.
  }
}

ProviderWatch::~ProviderWatch() { subscription_.reset(); }

template <class Call>
auto ProviderWatch::noting(const std::string& name, Call call) const -> decltype(call()) {
  const auto note = [&](const std::string& what) {
    std::lock_guard lock(mutex_);
    thrown_.insert(name + " threw " + what);
  };
  try {
    return call();
  } catch (const std::exception& error) {
    note(std::string("'") + error.what() + '\'');
    throw;
  } catch (...) {
    note(kStranger);
    throw;
  }
}

Answer ProviderWatch::ask(const ServiceName& service) const {
  Answer answer;
  try {
    answer.known = noting("list_endpoints_for_service(" + service.str() + ")",
                          [&] { return inner_.list_endpoints_for_service(service); });
    if (answer.known) std::sort(answer.known->begin(), answer.known->end());
  } catch (const std::exception& error) {
    answer.threw = error.what();
    if (answer.threw.empty()) answer.threw = "an exception without a text";
  } catch (...) {
    answer.threw = kStranger;
  }
  return answer;
}

bool ProviderWatch::synced() const {
  try {
    return has_synced();
  } catch (...) {
    return false;
  }
}

bool ProviderWatch::is_healthy() const {
  try {
    return healthy();
  } catch (...) {
    return false;
  }
}

bool ProviderWatch::has_synced() const {
  return noting("has_synced()", [&] { return inner_.has_synced(); });
}

bool ProviderWatch::healthy() const {
  return noting("healthy()", [&] { return inner_.healthy(); });
}

std::optional<std::vector<Endpoint>> ProviderWatch::list_endpoints_for_service(
    const ServiceName& service) const {
  Known known = noting("list_endpoints_for_service(" + service.str() + ")",
                       [&] { return inner_.list_endpoints_for_service(service); });
  if (rewrite_) rewrite_(service, known);
  return known;
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
