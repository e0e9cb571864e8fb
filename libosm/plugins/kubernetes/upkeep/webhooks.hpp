// The two webhook configurations, as the API server is told of them and the Reconciler wants them.
#pragma once

#include <boost/json/object.hpp>
#include <string>

namespace osm::inline v1::kubernetes {

struct WebhookNames {
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  std::string ca_bundle_pem{};  // whom the API server takes for the webhook
};

// Calls osm-injector for every pod created in a monitored namespace. Its failure refuses the pod:
// one without a sidecar would be outside of the mesh's policies.
boost::json::object mutating_webhook(const WebhookNames& names);

// Calls osm-controller for policies of monitored namespaces, and for MeshConfigs of its own.
boost::json::object validating_webhook(const WebhookNames& names);

}  // namespace osm::inline v1::kubernetes
