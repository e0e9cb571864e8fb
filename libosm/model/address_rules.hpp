// Claims of addresses by objects: which of them count, and which comes first (docs/adr/0076). Pure.
#pragma once

#include <compare>
#include <string>
#include <tuple>
#include <vector>

#include "osm/object.hpp"
#include "osm/values/mesh_config.hpp"

namespace osm::inline v1::model {

// One object's claim of an IPv4 address.
struct AddressClaim {
  std::string address;
  ObjectKey object;
  Created created;
  // True if no author chose the address: a pod's, or of a Service of an API server. Nobody takes it
  // away, and others may have it too, as pods in the network of their node have.
  bool assigned = false;

  friend bool operator==(const AddressClaim&, const AddressClaim&) = default;
};

// True if `a` has the address and not `b`: assigned addresses come first, then older objects.
inline bool comes_before(const AddressClaim& a, const AddressClaim& b) {
  return std::tuple(!a.assigned, std::tie(a.created, a.object)) <
         std::tuple(!b.assigned, std::tie(b.created, b.object));
}

// True if objects of the namespace may claim the address. The smallest network of `allotments` that
// holds it decides. Without one all may, unless the public internet routes the address or it is
// link-local.
bool may_claim(const std::vector<AddressAllotment>& allotments, const std::string& address,
               const std::string& ns);

}  // namespace osm::inline v1::model
