#include "azure/caller.hpp"

#include <optional>
#include <utility>

#include "base/read_file.hpp"

namespace osm::inline v1::azure {
namespace {

constexpr std::size_t kMaxAnswer = 8 * 1024 * 1024;
constexpr std::size_t kMaxRoots = 1024 * 1024;
constexpr std::size_t kConnections = 4;

net::HttpClientOptions client_options(const Server& server, const AzureResolverOptions& options) {
  net::HttpClientOptions out{.address = server.address, .max_connections = kConnections};
  out.blocking = &options.runtime.blocking;
  if (server.tls)
    out.tls = [file = options.settings.ca_file]() -> Result<net::ClientTls> {
      net::ClientTls tls;
      if (!file.empty()) {
        OSM_TRY(tls.trusted_pem, read_file(file, kMaxRoots));
      }
      return tls;
    };
  return out;
}

}  // namespace

void Ending::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  woken_.notify_all();
}

Caller::Caller(const Server& server, const AzureResolverOptions& options, Ending& ending)
    : server_(server),
      ending_(ending),
      deadline_(options.deadline),
      http_(net::HttpClient::create(client_options(server, options), options.io)) {}

Result<net::Response> Caller::call(net::HttpRequest request) {
  request.deadline = deadline_;
  request.max_response_bytes = kMaxAnswer;
  // Shared, since the answer may come while nobody waits any more.
  auto answer = std::make_shared<std::optional<Result<net::Response>>>();
  std::unique_lock lock(ending_.mutex_);
  if (ending_.ended_) return Error{ErrorCode::kUnavailable, "the resolver has ended"};
  lock.unlock();
  const Subscription sent =
      http_->send(std::move(request), [this, answer](Result<net::Response> response) {
        {
          const std::lock_guard held(ending_.mutex_);
          answer->emplace(std::move(response));
        }
        ending_.woken_.notify_all();
      });
  lock.lock();
  ending_.woken_.wait(lock, [&] { return answer->has_value() || ending_.ended_; });
  if (!answer->has_value()) {
    lock.unlock();  // the handle waits for the callback, which takes the lock
    return Error{ErrorCode::kUnavailable, "the resolver has ended"};
  }
  Result<net::Response> out = std::move(**answer);
  lock.unlock();
  return out;
}

}  // namespace osm::inline v1::azure
