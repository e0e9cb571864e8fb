#include "simulated_proxy.hpp"

#include <algorithm>
#include <iterator>

namespace osm::bench {
namespace {

// The resources of `now` that `before` does not hold with the same bytes.
std::vector<std::string> changed_names(const Contents* before, const Contents& now) {
  std::vector<std::string> changed;
  for (const auto& resource : now.resources) {
    bool same = false;
    if (before) {
      auto at =
          std::lower_bound(before->resources.begin(), before->resources.end(), resource.name,
                           [](const auto& r, const std::string& name) { return r.name < name; });
      same =
          at != before->resources.end() && at->name == resource.name && at->hash == resource.hash;
    }
    if (!same) changed.push_back(resource.name);
  }
  return changed;
}

std::vector<std::string> joined(const std::vector<std::string>& a,
                                const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

std::vector<std::string> SimulatedProxy::open() {
  of(XdsType::kCluster).asked = true;
  std::vector<std::string> requests;
  for (XdsType type : kXdsTypes) {
    TypeState& state = of(type);
    if (!state.asked) continue;
    state.nonce.clear();  // of a stream that is no more
    requests.push_back(serialize_request({.node_id = requests.empty() ? node_id_ : "",
                                          .type = type,
                                          .version = state.version,
                                          .nonce = {},
                                          .names = &state.names}));
  }
  return requests;
}

std::optional<SimulatedProxy::Reaction> SimulatedProxy::receive(std::string_view bytes) {
  const std::optional<Response> response = parse_response(bytes);
  if (!response) return std::nullopt;
  out_.clear();
  TypeState& state = of(response->type);
  ++state.responses;
  state.version = response->version;
  state.nonce = response->nonce;
  auto contents = index_.contents_of(*response);
  switch (response->type) {
    case XdsType::kCluster:
      on_clusters(std::move(contents));
      break;
    case XdsType::kListener:
      on_listeners(contents);
      break;
    case XdsType::kEndpoint:
      for (const auto& resource : contents->resources) warming_.erase(resource.name);
      acknowledge(XdsType::kEndpoint);
      break;
    case XdsType::kSecret:
    case XdsType::kRoute:
      acknowledge(response->type);
      break;
  }
  finish_warming();
  return Reaction{response->type, std::move(out_)};
}

void SimulatedProxy::acknowledge(XdsType type) {
  TypeState& state = of(type);
  state.asked = true;
  out_.push_back(serialize_request({.node_id = {},
                                    .type = type,
                                    .version = state.version,
                                    .nonce = state.nonce,
                                    .names = &state.names}));
}

void SimulatedProxy::subscribe(XdsType type, const std::vector<std::string>& names, bool again) {
  TypeState& state = of(type);
  if (state.names == names && !again) return;
  state.names = names;
  acknowledge(type);
}

void SimulatedProxy::on_clusters(std::shared_ptr<const Contents> clusters) {
  clusters_unacknowledged_ = true;
  bool warm_again = false;
  for (const std::string& name : changed_names(clusters_.get(), *clusters)) {
    // Our server names load assignments as their clusters.
    if (!std::binary_search(clusters->load_assignments.begin(), clusters->load_assignments.end(),
                            name))
      continue;
    warming_.insert(name);
    warm_again = true;
  }
  for (auto at = warming_.begin(); at != warming_.end();) {
    const bool kept = std::binary_search(clusters->load_assignments.begin(),
                                         clusters->load_assignments.end(), *at);
    at = kept ? std::next(at) : warming_.erase(at);
  }
  clusters_ = std::move(clusters);
  subscribe(
      XdsType::kSecret,
      joined(clusters_->secrets, listeners_ ? listeners_->secrets : std::vector<std::string>{}),
      false);
  subscribe(XdsType::kEndpoint, clusters_->load_assignments, warm_again);
}

void SimulatedProxy::on_listeners(const std::shared_ptr<const Contents>& listeners) {
  listeners_ = listeners;
  acknowledge(XdsType::kListener);
  subscribe(XdsType::kSecret, joined(clusters_->secrets, listeners_->secrets), false);
  subscribe(XdsType::kRoute, listeners_->routes, false);
}

void SimulatedProxy::finish_warming() {
  const TypeState& secrets = of(XdsType::kSecret);
  const bool warm = warming_.empty() && (secrets.names.empty() || secrets.responses > 0);
  if (clusters_unacknowledged_ && warm) {
    clusters_unacknowledged_ = false;
    acknowledge(XdsType::kCluster);
    if (!of(XdsType::kListener).asked) acknowledge(XdsType::kListener);
  }
  configured_ = warm && listeners_ != nullptr && secrets.responses > 0 &&
                (of(XdsType::kRoute).names.empty() || of(XdsType::kRoute).responses > 0);
}

}  // namespace osm::bench
