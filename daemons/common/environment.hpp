// The environment, which the library never reads by itself.
#pragma once

#include <map>
#include <string>

namespace osm::daemon {

std::map<std::string, std::string> environment();

}  // namespace osm::daemon
