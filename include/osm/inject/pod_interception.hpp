// Interception of a pod by a CNI plugin: the injector writes an annotation, and the plugin runs its
// script in the pod's network namespace. A pure function: text in, text out.
#pragma once

#include <string>
#include <string_view>

#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::inject {

inline constexpr std::string_view kInterceptionAnnotation = "openservicemesh.io/interception";

// Text for `/bin/sh -c`, to be run as root in the pod's network namespace, where iptables-restore
// and ip6tables-restore are. The variables POD_IP and POD_IPS have the pod's IPv4 address and all
// its addresses, with commas between them; NAME_SERVERS has its name servers, with blanks between
// them, or they are in /etc/resolv.conf. May be repeated. `annotation` may come from anybody: no
// text of it enters the script unchecked.
// Failure: kInvalidArgument naming the field and its value; kInvalidField for what is not such
// JSON.
OSM_API Result<std::string> pod_interception_script(std::string_view annotation);

}  // namespace osm::inline v1::inject
