// The listener by which a machine's Envoy answers for the names of Services.
#pragma once

#include <vector>

#include "translate/class_view.hpp"

namespace osm::inline v1::translate {

// Adds it for a class that asks for it. It has the names of all Services with a virtual address,
// also of those that the class may not call, as a hosts file has.
void add_dns(const ClassView& view, std::vector<InputPtr>& inputs);

}  // namespace osm::inline v1::translate
