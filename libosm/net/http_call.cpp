#include <boost/asio/io_context.hpp>
#include <optional>

#include "osm/net/http.hpp"
#include "osm/net/http_client.hpp"
#include "osm/runtime/asio_executor.hpp"

namespace osm::inline v1::net {

Result<Response> http_call(const HttpCall& call) {
  boost::asio::io_context context(1);  // runs in this thread only
  AsioExecutor io(context);
  const auto client =
      HttpClient::create({.address = call.address, .connect_timeout = call.deadline}, io);
  HttpRequest request{.method = call.method,
                      .target = call.target,
                      .body = call.body,
                      .deadline = call.deadline,
                      .max_response_bytes = call.max_response_bytes};
  if (!call.body.empty()) request.headers.emplace_back("Content-Type", call.content_type);
  std::optional<Result<Response>> answer;
  const Subscription sent = client->send(
      std::move(request), [&](Result<Response> response) { answer = std::move(response); });
  while (!answer) context.run_one();
  return *std::move(answer);
}

}  // namespace osm::inline v1::net
