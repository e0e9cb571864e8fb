#include "osm/machine/join.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "machine/bootstrap.hpp"
#include "machine/join_token.hpp"
#include "machine/proxy_user.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http_client.hpp"

namespace osm::inline v1::machine {
namespace {

namespace json = boost::json;

constexpr std::chrono::milliseconds kAskAgain{200};

// One question to the server that the token names. Failure: kNotReady: ask again.
Result<json::object> ask_once(net::HttpClient& client, const JoinOptions& options, const char* path,
                              const json::object& body) {
  const JoinToken& token = options.token;
  const auto response = client.call({.method = "POST",
                                     .target = path,
                                     .headers = {{"Content-Type", "application/json"}},
                                     .body = json::serialize(body),
                                     .deadline = options.timeout});
  if (!response.ok())
    return Error{response.error().code,
                 "the controller at " + token.join + ": " + response.error().message};
  const auto parsed = parse_json_object(response->body, "the answer of " + token.join);
  if (!parsed.ok()) return parsed.error();
  if (response->status == 200) return *parsed;
  const json::object& error = map_at(*parsed, "error");
  ErrorCode code = response->status == 403 ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable;
  if (text_at(error, "code") == error_code_text(ErrorCode::kNotReady)) code = ErrorCode::kNotReady;
  return Error{code, "the controller at " + token.join + " refused: " + text_at(error, "message")};
}

// Blocking: repeats the question up to the time-out while the controller cannot say.
Result<json::object> ask(net::HttpClient& client, const JoinOptions& options, const char* path,
                         const json::object& body) {
  const uid_t owner = owner_of(options.proxy);
  const AsProxyUser user(options.as_proxy_user, owner, owner);
  const auto end = std::chrono::steady_clock::now() + options.timeout;
  for (;;) {
    auto answer = ask_once(client, options, path, body);
    if (answer.ok() || answer.error().code != ErrorCode::kNotReady) return answer;
    if (std::chrono::steady_clock::now() >= end)
      return Error{ErrorCode::kUnavailable, answer.error().message};
    std::this_thread::sleep_for(kAskAgain);
  }
}

}  // namespace

Result<Bootstrapped> join(const JoinOptions& options, const JoinHost& host) {
  const JoinToken& token = options.token;
  if (!is_whole(token))
    return Error{ErrorCode::kInvalidArgument,
                 "the token lacks a part, or names no server on a network: use the text that "
                 "`osm vm token` printed"};
  OSM_TRY(net::Address address, net::parse_address(token.join));
  const auto client =
      net::HttpClient::create({.address = std::move(address),
                               .tls = [token]() -> Result<net::ClientTls> {
                                 return net::ClientTls{.trusted_pem = token.roots,
                                                       .server_name = token.server_name,
                                                       .certificate_pem = {},
                                                       .private_key = nullptr};
                               },
                               .connect_timeout = options.timeout,
                               .blocking = &host.blocking},
                              host.io);
  json::object body{{"id", token.id}, {"secret", token.secret}};
  OSM_TRY(const json::object subject, ask(*client, options, "/v1/join/subject", body));
  // Before the token is used up.
  OSM_TRY(const certificate::KeyAndRequest made, prepare(subject, options.proxy));
  body["request"] = made.request_pem;
  body["controller"] = token.controller;
  add_proxy(body, options.proxy);
  OSM_TRY(const json::object answer, ask(*client, options, "/v1/join", body));
  return write_bootstrap(answer, made.key, options.proxy);
}

}  // namespace osm::inline v1::machine
