// A blocking list call of the API.
#pragma once

#include <vector>

#include "kubernetes/client/api.hpp"

namespace osm::inline v1::kubernetes {

// One page. Failure: the API's; kDeadlineExceeded. Blocking: until it answers, half a minute at
// most; not from an event loop.
Result<ListPage> list_page(Api& api, const ListRequest& request);

}  // namespace osm::inline v1::kubernetes
