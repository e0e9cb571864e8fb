// The provider under test between the clauses and the mesh. It records exceptions and counts
// announcements. A clause may hold announcements back, add its own, or change answers.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "osm/endpoints_provider.hpp"
#include "osm/notifier.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::testing {

// nullopt: the service is unknown. Endpoints in order.
using Known = std::optional<std::vector<Endpoint>>;

// The provider's answer, or its exception.
struct Answer {
  Known known;
  std::string threw;  // empty: it answered

  bool is(const Known& expected) const { return threw.empty() && known == expected; }
  // "unknown", "[10.0.0.1:8080 as shop/books]", "threw 'socket closed'"
  std::string text() const;
};

std::string text_of(const Known& known);
// "<seen> in place of [10.0.0.1:8080 as shop/books]"
inline std::string instead_of(const Known& expected, const std::string& seen) {
  return seen + " in place of " + text_of(expected);
}
Known sorted(Known known);

class ProviderWatch final : public EndpointsProvider {
 public:
  // `inner` outlives the watch. `suffix` tells two instances of one provider apart in a mesh.
  ProviderWatch(EndpointsProvider& inner, const std::string& suffix);

  // Asks the provider. An exception becomes the answer and is recorded.
  Answer ask(const ServiceName& service) const;
  bool synced() const { return ask_synced().value_or(false); }       // false if it throws
  bool is_healthy() const { return ask_healthy().value_or(false); }  // also false if it throws

  // Notifies the mesh in place of the provider.
  void announce(const std::vector<ServiceName>& changed) { to_mesh_.notify(changed); }
  // Keeps the provider's own announcements from the mesh.
  void hold_back(bool held) { held_back_ = held; }
  // Sets a function that is called inside each of the provider's announcements.
  void on_announcement(std::function<void(const std::vector<ServiceName>&)> hook);
  // Sets a function that changes answers to the mesh; it may throw. Set it while the mesh does not
  // run.
  void rewrite(std::function<void(const ServiceName&, Known&)> hook) { rewrite_ = std::move(hook); }

  std::set<ServiceName> announced() const;
  void forget_announced();
  bool overlapped() const { return overlapped_; }  // two announcements ran at once
  // "list_endpoints_for_service(shop/books) threw 'socket closed'": each once.
  std::vector<std::string> thrown() const;

  std::string id() const override { return id_; }
  // These throw as the provider does.
  bool has_synced() const override { return or_throw(ask_synced()); }
  bool healthy() const override { return or_throw(ask_healthy()); }
  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override;
  Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) override {
    return to_mesh_.subscribe(std::move(on_change));
  }

 private:
  template <class T>
  static T or_throw(Result<T> answer) {
    if (!answer.ok()) throw std::runtime_error(answer.error().message);
    return *std::move(answer);
  }
  // Result: that of `call`, whose exception is recorded.
  template <class Call>
  auto noting(const std::string& name, Call call) const -> Result<decltype(call())>;
  Result<bool> ask_synced() const;
  Result<bool> ask_healthy() const;
  Result<Known> list(const ServiceName& service) const;
  void hear(const std::vector<ServiceName>& changed);

  EndpointsProvider& inner_;
  std::string id_;
  std::function<void(const ServiceName&, Known&)> rewrite_;
  std::atomic<bool> held_back_ = false;
  std::atomic<int> running_ = 0;
  std::atomic<bool> overlapped_ = false;

  mutable std::mutex mutex_;
  std::function<void(const std::vector<ServiceName>&)> hook_;
  std::set<ServiceName> announced_;
  mutable std::set<std::string> thrown_;

  Notifier<const std::vector<ServiceName>&> to_mesh_;
  Subscription subscription_;  // last: it ends first
};

}  // namespace osm::inline v1::testing
