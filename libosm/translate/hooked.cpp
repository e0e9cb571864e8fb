#include "translate/hooked.hpp"

#include <map>
#include <string>
#include <utility>

#include "base/guarded.hpp"
#include "osm/resource_hook.hpp"
#include "translate/pack_any.hpp"
#include "translate/references.hpp"

namespace osm::inline v1::translate {
namespace {

constexpr std::size_t at(XdsType type) { return static_cast<std::size_t>(type); }

// Always parses: this room encoded the bytes.
template <class Message>
std::vector<Message> decode(const std::vector<EncodedPtr>& resources) {
  std::vector<Message> out;
  out.reserve(resources.size());
  for (const EncodedPtr& resource : resources) {
    google::protobuf::Any any;
    any.ParseFromString(resource->any);
    out.emplace_back().ParseFromString(any.value());
  }
  return out;
}

template <class Message>
std::vector<EncodedPtr> encode(XdsType type, const std::vector<Message>& messages,
                               const std::vector<EncodedPtr>& before) {
  std::map<std::string, EncodedPtr> known;
  for (const EncodedPtr& resource : before) known.emplace(resource->name, resource);
  std::vector<EncodedPtr> out;
  out.reserve(messages.size());
  for (const Message& message : messages) {
    std::string any = deterministic_bytes(pack_any(message));
    if (const auto same = known.find(message.name());
        same != known.end() && same->second->any == any) {
      out.push_back(same->second);
      continue;
    }
    const Digest hash = digest_of(any);
    out.push_back(std::make_shared<const EncodedResource>(
        EncodedResource{type, message.name(), std::move(any), hash, references_of(message)}));
  }
  return out;
}

}  // namespace

Result<ResourcesByType> hooked(const ResourceHook& hook, const ProxyClass& proxy_class,
                               const ResourcesByType& resources) {
  const ProxyGroup group{proxy_class.identity, proxy_class.own_ports};
  using envoy::config::cluster::v3::Cluster;
  using envoy::config::listener::v3::Listener;
  using envoy::config::route::v3::RouteConfiguration;
  EnvoyResources typed{decode<Cluster>(resources[at(XdsType::kCluster)]),
                       decode<Listener>(resources[at(XdsType::kListener)]),
                       decode<RouteConfiguration>(resources[at(XdsType::kRoute)])};
  const Result<Status> called = guarded([&] { return hook.apply(group, typed); });
  const Status applied =
      called.ok() ? *called : called.error().with_context("the resource hook threw");
  if (!applied.ok())
    return applied.error().with_context("proxies of " + proxy_class.identity.str());
  ResourcesByType out = resources;
  const auto put = [&](XdsType type, const auto& messages) {
    out[at(type)] = encode(type, messages, resources[at(type)]);
  };
  put(XdsType::kCluster, typed.clusters);
  put(XdsType::kListener, typed.listeners);
  put(XdsType::kRoute, typed.routes);
  return out;
}

}  // namespace osm::inline v1::translate
