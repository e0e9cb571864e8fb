// Blocking calls of one server that end when their resolver does.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "azure/url.hpp"
#include "osm/metrics.hpp"
#include "osm/net/http_client.hpp"
#include "osm/runtime/runtime.hpp"
#include "osm/spec/azure_resources.hpp"

namespace osm::inline v1::azure {

inline constexpr Counter kAzureRequests{"osm_azure_requests_total",
                                        "Requests to Azure, by operation and answer",
                                        {"operation", "code"}};

// Ends waiting calls. Shared by all callers of a resolver.
class Ending {
 public:
  // Ends present and later calls. Thread: any.
  void end();

 private:
  friend class Caller;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool ended_ = false;
};

class Caller {
 public:
  // Lifetime: `ending` and the executors of `options` outlive it.
  Caller(const Server& server, const AzureResolverOptions& options, Ending& ending);

  // Failure: the client's; kUnavailable once the resolver ends. Thread: any but those of the
  // client. Blocking: until answered.
  Result<net::Response> call(net::HttpRequest request);
  const Server& server() const { return server_; }

 private:
  const Server server_;
  Ending& ending_;
  const std::chrono::milliseconds deadline_;
  std::unique_ptr<net::HttpClient> http_;
};

}  // namespace osm::inline v1::azure
