// The admin API's answers as JSON; daemons/README.md lists the fields. No keys anywhere.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "base/utf8.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/clock.hpp"
#include "osm/net/http.hpp"
#include "osm/object.hpp"
#include "osm/values/endpoint.hpp"
#include "osm/values/explanation.hpp"
#include "osm/values/ingress_backend.hpp"
#include "osm/values/object_status.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/service.hpp"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1::admin {

boost::json::object to_json(const Proxy& proxy, SteadyTime now);
boost::json::object to_json(const certificate::ProxyCertificate& certificate);
boost::json::object to_json(const certificate::Certificate& certificate);
boost::json::object to_json(const Problem& problem);
boost::json::object to_json(const RootStatus& root);
boost::json::object to_json(const DistrustEffect& effect);
boost::json::object to_json(const ObjectStatus& status);
boost::json::object to_json(const MergedEndpoint& merged);
boost::json::object to_json(const MeshService& service);
boost::json::object to_json(const IngressTrafficPolicy& policy);
// Encryption of calls from outside of the mesh: "none", "TLS", "mTLS".
const char* encryption_text(const std::optional<IngressTls>& tls);
// One TrafficTarget that allows, with where it is written.
boost::json::object to_json(const TrafficPolicy& policy, const ObjectSource& source);

// `source_of`: where an object is written.
boost::json::object to_json(const Explanation& explanation,
                            const std::function<ObjectSource(const ObjectKey&)>& source_of);

template <class T>
boost::json::array list(const std::vector<T>& values) {
  boost::json::array out;
  for (const T& value : values) out.push_back(to_json(value));
  return out;
}

// Texts may quote a request or an object, whatever its bytes are.
inline net::Response answer(const boost::json::value& value) {
  return net::json_response(to_utf8(boost::json::serialize(value)) + '\n');
}

}  // namespace osm::inline v1::admin
