// One session of a proxy over sets that a test puts together.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ads/fake_envoy.hpp"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "translate/pack_any.hpp"

namespace osm::ads_test {

struct SessionFixture {
  explicit SessionFixture(XdsVariant variant, const ads::Doubts& doubts = {})
      : session(variant, pool, doubts) {
    for (XdsType type : kXdsTypes) put(type, {});
  }

  void put(XdsType type, std::vector<EncodedPtr> resources) {
    sets[index_of(type)] = ads::ResourceSet::make(std::move(resources));
    session.set_resources(sets);
  }
  static EncodedPtr cluster(const std::string& name, const std::string& bytes) {
    return resource(XdsType::kCluster, name, bytes, {{XdsType::kEndpoint, name}});
  }
  static EncodedPtr endpoints(const std::string& name, const std::string& bytes) {
    return resource(XdsType::kEndpoint, name, bytes);
  }
  // Endpoints that Envoy could read.
  static EncodedPtr assignment(const std::string& name, const std::vector<std::string>& addresses) {
    envoy::config::endpoint::v3::ClusterLoadAssignment made;
    made.set_cluster_name(name);
    auto& locality = *made.add_endpoints();
    for (const std::string& address : addresses)
      locality.add_lb_endpoints()
          ->mutable_endpoint()
          ->mutable_address()
          ->mutable_socket_address()
          ->set_address(address);
    return endpoints(name, translate::deterministic_bytes(translate::pack_any(made)));
  }
  static std::vector<std::string> addresses_in(const ads::EncodedResource& resource) {
    google::protobuf::Any any;
    envoy::config::endpoint::v3::ClusterLoadAssignment made;
    std::vector<std::string> addresses;
    if (any.ParseFromString(resource.any) && any.UnpackTo(&made))
      for (const auto& locality : made.endpoints())
        for (const auto& host : locality.lb_endpoints())
          addresses.push_back(host.endpoint().address().socket_address().address());
    return addresses;
  }
  std::optional<Response> next() {
    auto response = session.next_response(now);
    if (response) session.on_write_done();
    return response;
  }

  ads::NameSetPool pool;
  ads::Session session;
  SteadyTime now{};
  ads::ResourceSets sets;
};

// A state-of-the-world session.
struct SotwFixture : SessionFixture {
  SotwFixture() : SessionFixture(XdsVariant::kSotw) {}

  ads::Session::Effect say(XdsType type, std::vector<std::string> names, std::string version = "",
                           std::string nonce = "", std::optional<std::string> error = {}) {
    return session.on_request(
        SentRequest{type, std::move(version), std::move(nonce), std::move(names), std::move(error)}
            .view());
  }
  Response take(XdsType type) {
    auto response = next();
    REQUIRE(response);
    REQUIRE(response->type == type);
    return *response;
  }
  ads::Session::Effect ack(const Response& r, std::vector<std::string> names = {}) {
    return say(r.type, std::move(names), r.version, r.nonce);
  }
};

// A delta session.
struct DeltaFixture : SessionFixture {
  explicit DeltaFixture(const ads::Doubts& doubts = {})
      : SessionFixture(XdsVariant::kDelta, doubts) {}

  ads::Session::Effect say(const SentRequest& request) {
    const Result<ads::Session::Effect> effect = session.on_request(request.delta_view());
    REQUIRE(effect.ok());
    return *effect;
  }
  ads::Session::Effect ask(XdsType type, std::vector<std::string> names = {},
                           std::vector<EncodedPtr> held = {}) {
    SentRequest request{.type = type, .names = std::move(names)};
    for (const EncodedPtr& r : held) request.held[r->name] = ads::resource_version(*r);
    return say(request);
  }
  ads::Session::Effect drop(XdsType type, std::vector<std::string> names) {
    return say({.type = type, .dropped = std::move(names)});
  }
  ads::Session::Effect ack(const Response& r) { return say({.type = r.type, .nonce = r.nonce}); }
  ads::Session::Effect nack(const Response& r) {
    return say({.type = r.type, .nonce = r.nonce, .error = "no such thing"});
  }
  // "a=1 b=2 -c": what the next response, which must be of this type, carries and removes.
  std::string take(XdsType type, Response* out = nullptr) {
    auto response = next();
    REQUIRE(response);
    REQUIRE(response->type == type);
    if (out) *out = *response;
    std::string text;
    for (const EncodedPtr& r : response->resources) text += r->name + "=" + r->any + " ";
    for (const std::string& name : response->removed) text += "-" + name + " ";
    return text.empty() ? text : text.substr(0, text.size() - 1);
  }
  // The same, acknowledged.
  std::string settle(XdsType type) {
    Response response;
    std::string text = take(type, &response);
    CHECK(ack(response) == ads::Session::Effect::kAck);
    return text;
  }
  // The proxy has the clusters a and b, and their endpoints.
  void settle_two_clusters() {
    put(XdsType::kCluster, {cluster("a", "1"), cluster("b", "1")});
    put(XdsType::kEndpoint, {endpoints("a", "e"), endpoints("b", "e")});
    ask(XdsType::kCluster);
    settle(XdsType::kCluster);
    ask(XdsType::kEndpoint, {"a", "b"});
    settle(XdsType::kEndpoint);
  }
};

}  // namespace osm::ads_test
