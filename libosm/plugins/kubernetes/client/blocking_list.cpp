#include "kubernetes/client/blocking_list.hpp"

#include <chrono>
#include <future>
#include <memory>

namespace osm::inline v1::kubernetes {

Result<ListPage> list_page(Api& api, const ListRequest& request) {
  const auto answer = std::make_shared<std::promise<Result<ListPage>>>();
  auto page = answer->get_future();
  const Subscription call = api.list(
      request, [answer](Result<ListPage> listed) { answer->set_value(std::move(listed)); });
  if (page.wait_for(std::chrono::seconds(30)) == std::future_status::ready) return page.get();
  return Error{ErrorCode::kDeadlineExceeded, "the API server did not list " +
                                                 std::string(request.resource.plural) +
                                                 " within half a minute"};
}

}  // namespace osm::inline v1::kubernetes
