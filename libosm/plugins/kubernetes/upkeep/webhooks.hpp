// The two webhook configurations; the Reconciler keeps them in place.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "osm/spec/kinds.hpp"

namespace osm::inline v1::kubernetes {

struct WebhookNames {
  std::string mesh_name = "osm";
  std::string osm_namespace = "osm-system";
  // CAs that the API server accepts for the webhook; empty: another program sets them.
  std::string ca_bundle_pem{};
  // True: only namespaces that have moved here from OSM v1.2, whose own webhooks ask about the
  // others.
  bool beside_osm_v1 = false;
};

// Calls osm-injector for every pod that is created in a monitored namespace. A failing call refuses
// the pod: a pod without a sidecar would be outside the mesh's policies.
//
// A namespace moves by one label, `openservicemesh.io/ignore: moved`: the webhooks of OSM v1.2 skip
// namespaces with that label, whatever its value. So one of the two injectors is asked about each
// pod, and never both.
boost::json::object mutating_webhook(const WebhookNames& names);

// Calls osm-controller for policies of monitored namespaces, and for the kinds that count in its
// own namespace only.
boost::json::object validating_webhook(const WebhookNames& names, const spec::Kinds& kinds);

// `live` with the caBundle of `wanted` in each webhook of the Services that `wanted` calls. Empty:
// it has them, or is no webhook configuration.
boost::json::object with_ca_of(const boost::json::object& wanted, const boost::json::object& live);

}  // namespace osm::inline v1::kubernetes
