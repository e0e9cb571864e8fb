// Applies the embedder's resource hook to the encoded resources of one class.
#pragma once

#include <array>
#include <vector>

#include "osm/result.hpp"
#include "osm/values/proxy.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1 {
class ResourceHook;
}

namespace osm::inline v1::translate {

using ResourcesByType = std::array<std::vector<EncodedPtr>, kXdsTypes.size()>;

// The resources after the hook. Unchanged ones keep their pointers; endpoints and secrets pass
// through.
// Failure: the hook's own; kInternal if it threw.
Result<ResourcesByType> hooked(const ResourceHook& hook, const ProxyClass& proxy_class,
                               const ResourcesByType& resources);

}  // namespace osm::inline v1::translate
