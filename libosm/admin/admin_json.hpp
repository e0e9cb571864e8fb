// The admin API's answers as JSON; daemons/README.md lists the fields. No keys anywhere.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/object.hpp"
#include "osm/values/proxy.hpp"
#include "osm/values/traffic_policy.hpp"

namespace osm::inline v1::admin {

boost::json::object to_json(const Proxy& proxy, SteadyTime now);
boost::json::object to_json(const certificate::ProxyCertificate& certificate);
boost::json::object to_json(const certificate::Certificate& certificate);
boost::json::object to_json(const Problem& problem);
// One TrafficTarget that allows, with where it is written.
boost::json::object to_json(const TrafficPolicy& policy, const ObjectSource& source);

}  // namespace osm::inline v1::admin
