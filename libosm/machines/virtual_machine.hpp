// VirtualMachine (workload.openservicemesh.io/v1alpha1), decoded.
#pragma once

#include "machines/machine.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::vm {

OSM_API machines::DecodedMachine decode_virtual_machine(const Object& object);

}  // namespace osm::inline v1::vm
