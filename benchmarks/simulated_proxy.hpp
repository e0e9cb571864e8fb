// One Envoy's side of an ADS stream, without the network (state of the world). It asks for clusters
// first; for their endpoints and secrets when they arrive; acknowledges them once they are warm;
// then asks for listeners and for the routes those name. A cluster whose bytes change is warmed
// again: its endpoints are asked for with the same names, and it stays unacknowledged until they
// come.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "discovery.hpp"

namespace osm::bench {

class SimulatedProxy {
 public:
  SimulatedProxy(std::string node_id, ContentsIndex& index)
      : node_id_(std::move(node_id)), index_(index) {}

  // Requests that it sends when its stream opens, in order: the first time that it wants clusters;
  // later, for every type, which version and names it holds.
  std::vector<std::string> open();
  // Takes one response. Result: nullopt: not a response.
  struct Reaction {
    XdsType type{};                     // of the response
    std::vector<std::string> requests;  // it sends, in order
  };
  std::optional<Reaction> receive(std::string_view bytes);

  // Holds all five types, all clusters warm.
  bool configured() const { return configured_; }
  std::uint64_t responses(XdsType type) const { return of(type).responses; }

 private:
  struct TypeState {
    bool asked = false;
    std::string version, nonce;
    std::vector<std::string> names;  // subscribed; none for clusters and listeners
    std::uint64_t responses = 0;
  };
  TypeState& of(XdsType type) { return types_[static_cast<std::size_t>(type)]; }
  const TypeState& of(XdsType type) const { return types_[static_cast<std::size_t>(type)]; }

  void acknowledge(XdsType type);  // or asks for the first time
  void subscribe(XdsType type, const std::vector<std::string>& names, bool again);
  void on_clusters(std::shared_ptr<const Contents> clusters);
  void on_listeners(const std::shared_ptr<const Contents>& listeners);
  void finish_warming();

  std::string node_id_;
  ContentsIndex& index_;
  std::array<TypeState, 5> types_;
  std::shared_ptr<const Contents> clusters_, listeners_;
  std::set<std::string> warming_;  // load assignments that clusters wait for
  bool clusters_unacknowledged_ = false;
  bool configured_ = false;
  std::vector<std::string> out_;
};

}  // namespace osm::bench
