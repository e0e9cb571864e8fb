// The hub's answers about its proxies.
#include <algorithm>

#include "ads/hub.hpp"

namespace osm::inline v1::ads {

Hub::View Hub::view(const Stream& stream) const {
  View view;
  view.proxy.id = stream.key().second;
  view.proxy.common_name = stream.peer.common_name;
  view.proxy.identity = identity_of(stream.peer.identity.account);
  view.proxy.workload = stream.workload->workload.name;
  view.proxy.services = stream.workload->workload.services;
  view.proxy.peer_address = stream.peer.address;
  view.proxy.connected_at = stream.connected_at;
  view.proxy.certificate_not_after = stream.peer.not_after;
  view.proxy.xds = stream.session->variant();
  for (XdsType type : kXdsTypes) {
    view.proxy.types[index_of(type)] = stream.session->state(type);
    view.sent[index_of(type)] = stream.session->sent(type);
    view.acknowledged[index_of(type)] = stream.session->acknowledged(type);
  }
  view.updated = stream.updated;
  return view;
}

std::vector<Proxy> Hub::list() const {
  std::vector<Proxy> proxies;
  for (const auto& [key, id] : serving_) proxies.push_back(view(streams_.at(id)).proxy);
  std::sort(proxies.begin(), proxies.end(),
            [](const Proxy& a, const Proxy& b) { return a.workload < b.workload; });
  return proxies;
}

std::vector<Hub::View> Hub::find(const std::string& name) const {
  std::vector<View> views;
  for (const auto& [key, id] : serving_) {
    const Stream& stream = streams_.at(id);
    const WorkloadName& workload = stream.workload->workload.name;
    if (key.second.str() == name || workload.str() == name || workload.name == name)
      views.push_back(view(stream));
  }
  return views;
}

}  // namespace osm::inline v1::ads
