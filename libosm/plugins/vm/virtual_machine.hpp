// VirtualMachine (workload.openservicemesh.io/v1alpha1), decoded.
#pragma once

#include "endpoint/machine.hpp"

namespace osm::inline v1::vm {

endpoint::DecodedMachine decode_virtual_machine(const Object& object);

}  // namespace osm::inline v1::vm
