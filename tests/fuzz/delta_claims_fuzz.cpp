// Claims of a proxy that reconnects with delta xDS: a true claim costs nothing but the
// difference, and whatever it claims truly or not at all, it comes to hold the mesh.
//
//   input: '0' clusters or '1' listeners; '1' if its last stream ended in doubt; then per name a
//   digit, what it holds ('0' nothing, '1' to '9' a variant); per name what the mesh has; then
//   steps: '0' an ACK, '1' a NACK, '2' another mesh, a digit per name.
#include <google/protobuf/any.pb.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ads/session.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "fuzz/fuzz.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using ads::EncodedPtr;
using ads::Session;

constexpr std::array<const char*, 6> kNames{"a", "b", "c", "shop/web|80", "*", ""};
using Held = std::map<std::string, std::string>;  // versions by name

EncodedPtr resource(XdsType type, const std::string& name, std::size_t variant) {
  google::protobuf::Any any;
  any.set_type_url(std::string(xds_type_url(type)));
  any.set_value(name + std::to_string(variant));
  auto encoded = std::make_shared<ads::EncodedResource>();
  encoded->type = type;
  encoded->name = name;
  encoded->any = any.SerializeAsString();
  encoded->hash = digest_of(encoded->any);
  return encoded;
}

class Proxy {
 public:
  explicit Proxy(Choices& choices)
      : choices_(choices),
        type_(choices.flag() ? XdsType::kListener : XdsType::kCluster),
        doubt_(choices.flag()),
        session_(XdsVariant::kDelta, pool_, doubts()) {
    const ads::ResourceSetPtr held = any_set();
    for (const EncodedPtr& one : held->resources()) held_[one->name] = version_of(*one);
    set_mesh();
  }

  void connect() {
    envoy::service::discovery::v3::DeltaDiscoveryRequest request;
    request.set_type_url(std::string(xds_type_url(type_)));
    for (const auto& [name, version] : held_)
      (*request.mutable_initial_resource_versions())[name] = version;
    require(session_.on_message(request.SerializeAsString()).ok(), "a claim is understood");

    const Held mesh = versions();
    const auto response = session_.next_response(now_);
    if (doubt_) return take(response, true);
    // Clusters that are gone stay for older listeners, which this proxy never asks for.
    const bool only_gone = type_ == XdsType::kCluster &&
                           std::includes(held_.begin(), held_.end(), mesh.begin(), mesh.end());
    require(response || only_gone || mesh == held_ || mesh.empty(), "a difference is sent");
    if (!response) return;
    for (const EncodedPtr& one : response->resources) {
      const auto held = held_.find(one->name);
      require(held == held_.end() || held->second != version_of(*one),
              "what is claimed truly is not sent again", one->name);
    }
    for (const std::string& name : response->removed)
      require(held_.contains(name) && !mesh.contains(name), "what is gone is removed", name);
    take(response, true);
  }

  void step() {
    const std::size_t kind = choices_.below(3);
    if (kind == 2) set_mesh();
    take(session_.next_response(now_), kind != 1);
    now_ += std::chrono::seconds(1);
  }

  // The mesh changes once more, and the proxy takes everything.
  void settle() {
    mesh_ = ads::ResourceSet::make({resource(type_, "a", 17), resource(type_, "b", 1)});
    give();
    for (int quiet = 0; quiet < 2;) {
      const auto response = session_.next_response(now_);
      quiet = response ? 0 : quiet + 1;
      require(++responses_ < 200, "a proxy that acknowledges comes to rest");
      take(response, true);
      now_ += std::chrono::seconds(30);
    }
    require(session_.settled() && held_ == versions(), "a proxy comes to hold the mesh");
  }

 private:
  ads::Doubts doubts() const {
    ads::Doubts doubts{};
    doubts[ads::index_of(type_)].unsure = doubt_;
    return doubts;
  }
  static std::string version_of(const ads::EncodedResource& one) {
    return ads::resource_version(one);
  }
  Held versions() const {
    Held all;
    for (const EncodedPtr& one : mesh_->resources()) all[one->name] = version_of(*one);
    return all;
  }
  ads::ResourceSetPtr any_set() {
    std::vector<EncodedPtr> resources;
    for (const char* name : kNames)
      if (const std::size_t variant = choices_.below(10); variant != 0)
        resources.push_back(resource(type_, name, variant));
    return ads::ResourceSet::make(std::move(resources));
  }
  void set_mesh() {
    mesh_ = any_set();
    // Nothing at all is never sent: the hub closes the stream then.
    if (mesh_->empty()) mesh_ = ads::ResourceSet::make({resource(type_, "a", 1)});
    give();
  }
  void give() {
    ads::ResourceSets sets{};
    for (auto& set : sets) set = ads::ResourceSet::none();
    sets[ads::index_of(type_)] = mesh_;
    session_.set_resources(sets);
  }

  void take(const std::optional<ads::Response>& response, bool accepts) {
    if (!response) return;
    session_.on_write_done();
    envoy::service::discovery::v3::DeltaDiscoveryRequest answer;
    answer.set_type_url(std::string(xds_type_url(type_)));
    answer.set_response_nonce(response->nonce);
    if (!accepts) answer.mutable_error_detail()->set_message("refused");
    // Envoy removes also when it refuses what comes with it.
    for (const std::string& name : response->removed) held_.erase(name);
    if (accepts)
      for (const EncodedPtr& one : response->resources) held_[one->name] = version_of(*one);
    require(session_.on_message(answer.SerializeAsString()).ok(), "an answer is understood");
  }

  Choices& choices_;
  const XdsType type_;
  const bool doubt_;
  ads::NameSetPool pool_;
  Session session_;
  ads::ResourceSetPtr mesh_;
  Held held_;
  int responses_ = 0;
  SteadyTime now_{std::chrono::hours(1)};
};

void run(Choices choices) {
  Proxy proxy(choices);
  proxy.connect();
  for (int steps = 0; steps < 50 && !choices.empty(); ++steps) proxy.step();
  proxy.settle();
}

const bool kAdded = add("delta_claims", [](std::string_view input) { run(Choices(input)); });

}  // namespace
