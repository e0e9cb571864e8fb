// The vendor's own source of truth: hosts, services and who may call whom, in memory. Told to the
// mesh as the objects it knows, through osm::ObjectStore; no file, no Kubernetes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "osm/notifier.hpp"
#include "osm/object_store.hpp"

namespace vendor {

struct Host {
  std::string name;     // and its service account
  std::string address;  // IPv4
};

struct App {
  std::string name;     // runs on the host of this name
  std::string address;  // what clients dial
  int port = 0;
};

class Inventory final : public osm::ObjectStore {
 public:
  explicit Inventory(std::string tenant);  // the namespace of everything below

  void add(const Host& host);
  void add(const App& app);
  // `client` may send GET requests to `app`, or may no longer.
  void allow(const std::string& client, const std::string& app);
  void forbid(const std::string& client, const std::string& app);

  // Implements osm::ObjectStore.
  std::vector<std::shared_ptr<const osm::Object>> list(const osm::GroupKind& kind) const override;
  std::shared_ptr<const osm::Object> get(const osm::ObjectKey& key) const override;
  bool has_synced() const override { return true; }
  std::vector<osm::Problem> list_problems() const override { return {}; }
  osm::Subscription subscribe(
      std::function<void(const std::vector<osm::ObjectKey>&)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  // Puts the object, or a newer version of it; `body` is its JSON without kind and metadata.
  void put(const osm::ObjectKey& key, const std::string& api_version, const std::string& body,
           const std::map<std::string, std::string>& labels = {});

  const std::string tenant_;
  mutable std::mutex mutex_;
  std::map<osm::ObjectKey, std::shared_ptr<const osm::Object>> objects_;
  osm::Notifier<const std::vector<osm::ObjectKey>&> changed_;
};

}  // namespace vendor
