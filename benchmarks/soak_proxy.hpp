// One proxy's side of an ADS stream in the soak, without the network, in either variant of xDS. It
// acknowledges at once, keeps what it holds when its stream ends, and refuses every resource that
// contains kRefusedMarker. (SimulatedProxy warms clusters as Envoy does, in state of the world
// only.)
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "discovery.hpp"
#include "osm/values/proxy.hpp"

namespace osm::bench {

// Contents of single resources, shared by all proxies. Bounded. Thread: one.
class ResourceContents {
 public:
  std::shared_ptr<const Contents> of(XdsType type, const std::string& any);

 private:
  std::unordered_map<std::uint64_t, std::shared_ptr<const Contents>> known_;
};

class SoakProxy {
 public:
  SoakProxy(std::string node_id, XdsVariant variant, ResourceContents& contents)
      : node_id_(std::move(node_id)), variant_(variant), contents_(contents) {}

  XdsVariant variant() const { return variant_; }
  // Requests that open a stream. Forgets everything held before if `fresh`.
  std::vector<std::string> open(bool fresh);
  // Takes one response. Result: requests that answer it; empty: not a response.
  std::vector<std::string> receive(const std::string& bytes);

  // Holds everything that it asks for.
  bool configured() const;
  // Address that it has for the beacon.
  const std::string& beacon() const { return beacon_; }
  // Hash of the clusters, endpoints, listeners and routes that it holds.
  std::uint64_t digest() const;
  std::uint64_t responses() const { return responses_; }
  std::uint64_t refusals() const { return refusals_; }

 private:
  struct Held {
    std::string version;  // in delta
    std::shared_ptr<const Contents> contents;
  };
  struct Type {
    bool wanted = false;
    bool asked = false;  // on this stream
    std::set<std::string> names, told;
    std::map<std::string, Held> held;
    std::string version, nonce;
  };
  struct Arrived {
    std::string name, version;
    std::string any;
  };

  Type& of(XdsType type) { return types_[static_cast<std::size_t>(type)]; }
  const Type& of(XdsType type) const { return types_[static_cast<std::size_t>(type)]; }
  // Result: whether all of them were accepted.
  bool take(XdsType type, const std::vector<Arrived>& resources);
  bool receive_sotw(const std::string& bytes);
  bool receive_delta(const std::string& bytes);
  // Sends a request of that type: an answer if `nonce` is not empty.
  void request(XdsType type, const std::string& nonce, bool accepted);
  void follow(XdsType type);  // asks for what the type's resources name
  void want(XdsType type, std::set<std::string> names);

  const std::string node_id_;
  const XdsVariant variant_;
  ResourceContents& contents_;
  std::array<Type, 5> types_;
  std::string beacon_;
  std::uint64_t responses_ = 0, refusals_ = 0;
  std::vector<std::string> out_;
};

}  // namespace osm::bench
