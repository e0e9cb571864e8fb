#include "kubernetes/client/blocking_list.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

namespace osm::inline v1::kubernetes {

Result<ListPage> list_page(Api& api, const ListRequest& request) {
  struct Answer {
    std::mutex mutex;
    std::condition_variable came;
    std::optional<Result<ListPage>> page;
  };
  const auto answer = std::make_shared<Answer>();
  const Subscription call = api.list(request, [answer](Result<ListPage> page) {
    std::lock_guard lock(answer->mutex);
    answer->page = std::move(page);
    answer->came.notify_all();
  });
  std::unique_lock lock(answer->mutex);
  const bool in_time = answer->came.wait_for(lock, std::chrono::seconds(30),
                                             [&] { return answer->page.has_value(); });
  if (!in_time)
    return Error{ErrorCode::kDeadlineExceeded, "the API server did not list " +
                                                   std::string(request.resource.plural) +
                                                   " within half a minute"};
  return *std::move(answer->page);
}

}  // namespace osm::inline v1::kubernetes
