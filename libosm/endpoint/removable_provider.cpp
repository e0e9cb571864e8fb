#include "osm/providers/removable_provider.hpp"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "osm/notifier.hpp"

namespace osm::inline v1 {
namespace {

class Removable final : public RemovableProvider {
 public:
  explicit Removable(EndpointsProvider& provider)
      : id_(provider.id()),
        provider_(&provider),
        subscription_(provider.subscribe(
            [this](const std::vector<ServiceName>& changed) { changed_.notify(changed); })) {}

  void remove() override {
    Subscription ending;
    {
      const std::lock_guard lock(known_mutex_);
      std::swap(ending, subscription_);
    }
    ending = Subscription();  // waits for a callback
    {
      const std::lock_guard lock(provider_mutex_);  // waits for calls
      if (std::exchange(provider_, nullptr) == nullptr) return;
    }
    std::vector<ServiceName> left;
    {
      const std::lock_guard lock(known_mutex_);
      left.assign(known_.begin(), known_.end());
      known_.clear();
    }
    changed_.notify(left);
  }

  std::string id() const override { return id_; }
  bool has_synced() const override {
    const std::shared_lock lock(provider_mutex_);
    return provider_ == nullptr || provider_->has_synced();
  }
  bool healthy() const override {
    const std::shared_lock lock(provider_mutex_);
    return provider_ == nullptr || provider_->healthy();
  }

  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    const std::shared_lock lock(provider_mutex_);
    if (provider_ == nullptr) return std::nullopt;
    auto endpoints = provider_->list_endpoints_for_service(service);
    note(service, endpoints.has_value());
    return endpoints;
  }
  bool served_outside(const ServiceName& service) const override {
    const std::shared_lock lock(provider_mutex_);
    return provider_ != nullptr && provider_->served_outside(service);
  }
  std::vector<std::string> list_source_addresses(const ServiceName& service) const override {
    const std::shared_lock lock(provider_mutex_);
    if (provider_ == nullptr) return {};
    auto addresses = provider_->list_source_addresses(service);
    if (!addresses.empty()) note(service, true);
    return addresses;
  }

  Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  // Keeps the services whose answers remove() takes back.
  void note(const ServiceName& service, bool known) const {
    const std::lock_guard lock(known_mutex_);
    if (known) {
      known_.insert(service);
    } else {
      known_.erase(service);
    }
  }

  const std::string id_;
  Notifier<const std::vector<ServiceName>&> changed_;
  mutable std::shared_mutex provider_mutex_;  // shared: calls of the provider
  EndpointsProvider* provider_;               // null: it has been removed
  mutable std::mutex known_mutex_;
  mutable std::set<ServiceName> known_;
  Subscription subscription_;  // last: it ends first
};

}  // namespace

std::unique_ptr<RemovableProvider> make_removable(EndpointsProvider& provider) {
  return std::make_unique<Removable>(provider);
}

}  // namespace osm::inline v1
