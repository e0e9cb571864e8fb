#include "inventory_provider.hpp"

#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

namespace vendor {
namespace {

std::optional<unsigned> whole_number(const std::string& text, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

// Everything but the service of a line. nullopt: not understood.
std::optional<osm::Endpoint> parse_endpoint(const osm::ServiceName& service, std::istream& line) {
  osm::Endpoint endpoint;
  std::string address, word;
  if (!(line >> address >> endpoint.service_port)) return std::nullopt;
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto port = whole_number(address.substr(colon + 1), 65535);
  if (!port) return std::nullopt;
  endpoint.address = address.substr(0, colon);
  endpoint.port = osm::Port(*port);
  while (line >> word) {
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "account") {
      // An account of another namespace is written with it. It is listed as it is: whether it may
      // stand behind the service is the mesh's to say, and it says no.
      const auto slash = value.find('/');
      endpoint.identity =
          slash == std::string::npos
              ? osm::ServiceIdentity{service.ns, value}
              : osm::ServiceIdentity{value.substr(0, slash), value.substr(slash + 1)};
    } else if (name == "zone") {
      endpoint.zone = value;
    } else if (name == "weight") {
      endpoint.weight = whole_number(value, 1'000'000);
      if (!endpoint.weight) return std::nullopt;
    } else if (word == "unhealthy") {
      endpoint.healthy = false;
    }  // what a newer inventory adds is none of ours
  }
  return endpoint;
}

}  // namespace

InventoryProvider::InventoryProvider(const InventoryOptions& options) : options_(options) {
  poll_again(std::chrono::milliseconds(0));
}

InventoryProvider::~InventoryProvider() {
  osm::Subscription last;
  {
    std::lock_guard lock(timer_mutex_);
    stopped_ = true;
    last = std::move(timer_);
  }
  last.reset();  // waits for a poll that runs, which takes timer_mutex_
}

void InventoryProvider::poll_again(std::chrono::milliseconds delay) {
  std::lock_guard lock(timer_mutex_);
  if (!stopped_) timer_ = options_.executor.post_after(delay, [this] { poll(); });
}

void InventoryProvider::poll() {
  take(osm::net::http_call(
      {.address = options_.inventory, .target = "/endpoints", .deadline = options_.patience}));
  poll_again(options_.poll_every);
}

// Only a complete answer replaces the last one. An inventory that cannot be reached changes
// nothing.
void InventoryProvider::take(const osm::Result<osm::net::Response>& answer) {
  const bool reached = answer.ok() && answer->status == 200;
  Services fresh;
  if (reached) fresh = parse(answer->body);
  std::vector<osm::ServiceName> changed;
  bool told = false;
  {
    std::lock_guard lock(mutex_);
    told = std::exchange(healthy_, reached) != reached;
    if (reached) {
      told |= !std::exchange(synced_, true);
      for (const auto& [service, endpoints] : services_)
        if (!fresh.contains(service)) changed.push_back(service);
      for (const auto& [service, endpoints] : fresh)
        if (const auto at = services_.find(service);
            at == services_.end() || at->second != endpoints)
          changed.push_back(service);
      services_.swap(fresh);
    }
  }
  if (told && !reached)
    options_.log.warning("the inventory cannot be reached; its last endpoints are kept",
                         {{"inventory", options_.inventory.str()},
                          {"cause", answer.ok() ? "status " + std::to_string(answer->status)
                                                : answer.error().text()}});
  if (told || !changed.empty()) changed_.notify(changed);  // without the lock
}

InventoryProvider::Services InventoryProvider::parse(const std::string& text) const {
  Services services;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    if (!(words >> name)) continue;
    const auto slash = name.find('/');
    const auto service = osm::parse_service_name(
        name.substr(0, slash), slash == std::string::npos ? "" : name.substr(slash + 1));
    if (!service.ok() || service->str() != name) continue;  // nothing a mesh can have
    auto& endpoints = services[*service];
    if (line.ends_with(" -")) continue;
    if (auto endpoint = parse_endpoint(*service, words)) {
      endpoints.push_back(*std::move(endpoint));
    } else {
      options_.log.warning("a line of the inventory is not understood", {{"line", line}});
    }
  }
  return services;
}

bool InventoryProvider::has_synced() const {
  std::lock_guard lock(mutex_);
  return synced_;
}

bool InventoryProvider::healthy() const {
  std::lock_guard lock(mutex_);
  return healthy_;
}

std::optional<std::vector<osm::Endpoint>> InventoryProvider::list_endpoints_for_service(
    const osm::ServiceName& service) const {
  std::lock_guard lock(mutex_);
  const auto at = services_.find(service);
  if (at == services_.end()) return std::nullopt;
  return at->second;
}

}  // namespace vendor
