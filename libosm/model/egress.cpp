#include "model/egress.hpp"

namespace osm::inline v1::model {

std::string text_of(const Ipv4Network& network) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8)
    text += std::to_string(network.address >> shift & 255) + (shift > 0 ? "." : "/");
  return text + std::to_string(network.length);
}

bool holds(const Ipv4Network& outer, const Ipv4Network& inner) {
  if (outer.length > inner.length) return false;
  return outer.length == 0 || (outer.address ^ inner.address) >> (32 - outer.length) == 0;
}

bool holds(std::string_view outer, std::string_view inner) {
  if (outer == inner) return true;
  return outer.starts_with("*.") && inner.size() > outer.size() - 1 &&
         inner.ends_with(outer.substr(1));
}

}  // namespace osm::inline v1::model
