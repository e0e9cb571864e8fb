#include "soak_proxy.hpp"

#include <algorithm>

#include <google/protobuf/any.pb.h>

#include "envoy/service/discovery/v3/discovery.pb.h"
#include "soak_mesh.hpp"

namespace osm::bench {
namespace {

namespace discovery = envoy::service::discovery::v3;

constexpr std::size_t kMostContents = 20'000;
constexpr const char* kBeaconNetwork = "10.3.";

std::uint64_t hash_of(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

bool is_whole(XdsType type) { return type == XdsType::kCluster || type == XdsType::kListener; }

// Address of the beacon in its serialized endpoints.
std::string address_in(const std::string& any) {
  const std::size_t from = any.find(kBeaconNetwork);
  if (from == std::string::npos) return {};
  const std::size_t to = any.find_first_not_of("0123456789.", from);
  return any.substr(from, to == std::string::npos ? to : to - from);
}

}  // namespace

std::shared_ptr<const Contents> ResourceContents::of(XdsType type, const std::string& any) {
  if (known_.size() > kMostContents) known_.clear();
  auto& known = known_[hash_of(any) ^ static_cast<std::uint64_t>(type)];
  if (!known) known = std::make_shared<const Contents>(read_contents(type, any));
  return known;
}

std::vector<std::string> SoakProxy::open(bool fresh) {
  if (fresh) {
    types_ = {};
    beacon_.clear();
  }
  out_.clear();
  for (Type& type : types_) {
    type.asked = false;
    type.told.clear();
    type.nonce.clear();
  }
  of(XdsType::kCluster).wanted = true;
  for (XdsType type : kXdsTypes)
    if (of(type).wanted && (is_whole(type) || !of(type).names.empty())) request(type, {}, true);
  return std::move(out_);
}

std::vector<std::string> SoakProxy::receive(const std::string& bytes) {
  out_.clear();
  ++responses_;
  const bool understood =
      variant_ == XdsVariant::kDelta ? receive_delta(bytes) : receive_sotw(bytes);
  if (!understood) out_.clear();
  return std::move(out_);
}

bool SoakProxy::receive_sotw(const std::string& bytes) {
  discovery::DiscoveryResponse response;
  if (!response.ParseFromString(bytes)) return false;
  const auto type = xds_type_of(response.type_url());
  if (!type) return false;
  std::vector<Arrived> arrived;
  std::set<std::string> sent;
  for (const auto& resource : response.resources()) {
    std::string any = resource.SerializeAsString();
    std::string name = contents_.of(*type, any)->resources.front().name;
    sent.insert(name);
    arrived.push_back({std::move(name), {}, std::move(any)});
  }
  if (is_whole(*type))
    std::erase_if(of(*type).held, [&](const auto& held) { return !sent.contains(held.first); });
  const bool accepted = take(*type, arrived);
  of(*type).nonce = response.nonce();
  if (accepted) of(*type).version = response.version_info();
  request(*type, response.nonce(), accepted);
  follow(*type);
  return true;
}

bool SoakProxy::receive_delta(const std::string& bytes) {
  discovery::DeltaDiscoveryResponse response;
  if (!response.ParseFromString(bytes)) return false;
  const auto type = xds_type_of(response.type_url());
  if (!type) return false;
  std::vector<Arrived> arrived;
  for (const auto& resource : response.resources())
    arrived.push_back(
        {resource.name(), resource.version(), resource.resource().SerializeAsString()});
  for (const std::string& name : response.removed_resources()) of(*type).held.erase(name);
  const bool accepted = take(*type, arrived);
  request(*type, response.nonce(), accepted);
  follow(*type);
  return true;
}

bool SoakProxy::take(XdsType type, const std::vector<Arrived>& resources) {
  bool accepted = true;
  for (const Arrived& resource : resources) {
    if (resource.any.find(kRefusedMarker) != std::string::npos) {
      accepted = false;
      continue;
    }
    of(type).held[resource.name] = {resource.version, contents_.of(type, resource.any)};
    if (type == XdsType::kEndpoint && resource.name.find("beacon") != std::string::npos)
      beacon_ = address_in(resource.any);
  }
  refusals_ += accepted ? 0 : 1;
  return accepted;
}

void SoakProxy::request(XdsType type, const std::string& nonce, bool accepted) {
  Type& state = of(type);
  const char* refused = "this proxy refuses what contains the soak's marker";
  if (variant_ == XdsVariant::kSotw) {
    discovery::DiscoveryRequest message;
    if (out_.empty()) message.mutable_node()->set_id(node_id_);
    message.set_type_url(std::string(xds_type_url(type)));
    message.set_version_info(state.version);
    message.set_response_nonce(nonce.empty() ? state.nonce : nonce);
    for (const std::string& name : state.names) message.add_resource_names(name);
    if (!accepted) message.mutable_error_detail()->set_message(refused);
    out_.push_back(message.SerializeAsString());
  } else {
    discovery::DeltaDiscoveryRequest message;
    if (out_.empty()) message.mutable_node()->set_id(node_id_);
    message.set_type_url(std::string(xds_type_url(type)));
    message.set_response_nonce(nonce);
    for (const std::string& name : state.names)
      if (!state.told.contains(name)) message.add_resource_names_subscribe(name);
    for (const std::string& name : state.told)
      if (!state.names.contains(name)) message.add_resource_names_unsubscribe(name);
    if (!state.asked)
      for (const auto& [name, held] : state.held)
        (*message.mutable_initial_resource_versions())[name] = held.version;
    if (!accepted) message.mutable_error_detail()->set_message(refused);
    out_.push_back(message.SerializeAsString());
  }
  state.told = state.names;
  state.wanted = state.asked = true;
}

void SoakProxy::follow(XdsType type) {
  if (!is_whole(type)) return;
  std::set<std::string> endpoints, secrets, routes;
  for (XdsType by : {XdsType::kCluster, XdsType::kListener})
    for (const auto& [name, held] : of(by).held) {
      endpoints.insert(held.contents->load_assignments.begin(),
                       held.contents->load_assignments.end());
      secrets.insert(held.contents->secrets.begin(), held.contents->secrets.end());
      routes.insert(held.contents->routes.begin(), held.contents->routes.end());
    }
  want(XdsType::kSecret, std::move(secrets));
  want(XdsType::kEndpoint, std::move(endpoints));
  if (!of(XdsType::kListener).asked) request(XdsType::kListener, {}, true);
  want(XdsType::kRoute, std::move(routes));
}

void SoakProxy::want(XdsType type, std::set<std::string> names) {
  Type& state = of(type);
  if (state.names == names) return;
  std::erase_if(state.held, [&](const auto& held) { return !names.contains(held.first); });
  state.names = std::move(names);
  request(type, {}, true);
}

bool SoakProxy::configured() const {
  return std::all_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
    const Type& state = of(type);
    if (is_whole(type)) return !state.held.empty();
    return std::all_of(state.names.begin(), state.names.end(),
                       [&](const std::string& name) { return state.held.contains(name); });
  });
}

std::uint64_t SoakProxy::digest() const {
  std::uint64_t digest = 0;
  for (XdsType type : kXdsTypes) {
    if (type == XdsType::kSecret) continue;
    for (const auto& [name, held] : of(type).held)
      digest = digest * 0x9e3779b97f4a7c15ULL + held.contents->resources.front().hash;
  }
  return digest;
}

}  // namespace osm::bench
