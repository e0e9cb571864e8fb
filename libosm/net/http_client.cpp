#include "osm/net/http_client.hpp"

#include <boost/asio/post.hpp>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "base/may_wait.hpp"
#include "net/http_client_exchange.hpp"

namespace osm::inline v1::net {
namespace {

class HttpClientImpl final : public HttpClient {
 public:
  HttpClientImpl(HttpClientOptions options, AsioExecutor& io)
      : io_(io), pool_(std::make_shared<ConnectionPool>(std::move(options), io.context())) {}

  ~HttpClientImpl() override {
    std::vector<std::weak_ptr<Exchange>> open;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      open.swap(open_);
    }
    for (const auto& weak : open)
      if (const auto exchange = weak.lock()) exchange->cancel();
    boost::asio::post(pool_->strand(), [pool = pool_] { pool->shutdown(); });
  }

  Subscription send(HttpRequest request, std::function<void(Result<Response>)> done) override {
    return start(Exchange::Kind::kCall, std::move(request), {.done = std::move(done)});
  }

  Subscription open_stream(HttpRequest request, HttpStreamEvents events) override {
    return start(Exchange::Kind::kStream, std::move(request), {.stream = std::move(events)});
  }

  Result<Response> call(HttpRequest request) override {
    OSM_TRY(check_may_wait(io_, "HttpClient::call"));
    std::promise<Result<Response>> answered;
    auto answer = answered.get_future();
    const Subscription sent = send(std::move(request), [&](Result<Response> response) {
      answered.set_value(std::move(response));
    });
    return answer.get();
  }

 private:
  Subscription start(Exchange::Kind kind, HttpRequest request, ExchangeCallbacks callbacks) {
    auto exchange =
        std::make_shared<Exchange>(kind, pool_, std::move(request), std::move(callbacks));
    {
      std::lock_guard lock(mutex_);
      if (closed_) return {};                  // from a callback that the destructor waits for
      if (open_.size() == open_.capacity()) {  // remove ended entries before the table grows
        std::erase_if(open_, [](const auto& weak) { return weak.expired(); });
        open_.reserve(2 * open_.size() + 16);
      }
      open_.push_back(exchange);
    }
    boost::asio::post(pool_->strand(), [exchange] { exchange->start(); });
    void* address = exchange.get();
    return Subscription(std::shared_ptr<void>(
        address, [exchange = std::move(exchange)](void*) { exchange->cancel(); }));
  }

  const Executor& io_;
  const std::shared_ptr<ConnectionPool> pool_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Exchange>> open_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<HttpClient> HttpClient::create(HttpClientOptions options, AsioExecutor& io) {
  return std::make_unique<HttpClientImpl>(std::move(options), io);
}

}  // namespace osm::inline v1::net
