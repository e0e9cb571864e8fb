// AzureResource (workload.openservicemesh.io/v1alpha1), decoded, and ids of ARM.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "machines/machine.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::azure {

enum class ResourceKind { kVirtualMachine, kScaleSet };

struct ResourceId {
  ResourceKind kind = ResourceKind::kVirtualMachine;
  std::string text;  // without a leading "/resource", keywords as ARM writes them
};

// Reads an id as ARM writes it, or as the design does, with a leading "/resource". Keywords match
// in any case of letters, as in ARM. Nullopt: it is no id of a virtual machine or a scale set.
OSM_API std::optional<ResourceId> resource_id_of(std::string_view text);
// True for the id of a network interface, so that it may be a part of a request.
OSM_API bool is_interface_id(std::string_view text);

OSM_API machines::DecodedMachine decode_azure_resource(const Object& object);

}  // namespace osm::inline v1::azure
