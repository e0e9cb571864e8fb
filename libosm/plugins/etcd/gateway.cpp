#include "etcd/gateway.hpp"

#include <boost/json/serialize.hpp>
#include <memory>
#include <utility>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "base/secret_json.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAnswer = 1024 * 1024;  // bytes; a CA is some thousand
constexpr std::size_t kMaxQuoted = 512;          // limit of a quoted error text
constexpr std::size_t kMaxFile = 1024 * 1024;
constexpr const char* kAnswer = "the answer";  // as errors name it

// https://grpc.github.io/grpc/core/md_doc_statuscodes.html
enum GrpcCode { kInvalidArgumentCode = 3, kPermissionCode = 7, kPreconditionCode = 9 };

Status read_answer(net::Response& response, const std::function<Status(json::object&)>& read) {
  const EraseOnExit erased(response.body);
  OSM_TRY(json::object answer, parse_json_object(response.body, kAnswer));
  const EraseJsonOnExit parsed(answer);
  return read(answer);
}

// True if another endpoint may succeed.
bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

Gateway::Gateway(const CaStoreOptions& options, std::vector<Endpoint> endpoints)
    : options_(options), endpoints_(std::move(endpoints)) {}

Result<net::ClientTls> Gateway::tls() const {
  net::ClientTls tls;
  if (!options_.ca_file.empty()) {
    OSM_TRY(tls.trusted_pem, read_file(options_.ca_file, kMaxFile));
  }
  if (!options_.certificate_file.empty()) {
    OSM_TRY(tls.certificate_pem, read_file(options_.certificate_file, kMaxFile));
    OSM_TRY(std::string key, read_file(options_.key_file, kMaxFile));
    tls.private_key = std::make_shared<const certificate::PrivateKey>(std::move(key));
  }
  return tls;
}

Status Gateway::post(std::string_view path, const std::string& body,
                     const std::function<Status(json::object&)>& read) const {
  std::string reasons;
  for (const Endpoint& endpoint : endpoints_) {
    const Status asked = ask(endpoint, path, body, read);
    if (asked.ok()) return asked;
    if (!may_pass(asked.error())) return asked.error().with_context(endpoint.url);
    reasons.append(reasons.empty() ? "" : "; ")
        .append(endpoint.url)
        .append(": ")
        .append(asked.error().message);
  }
  return Error{ErrorCode::kUnavailable,
               "no endpoint of etcd answers (" + reasons +
                   "); see that etcd runs there, has a leader, and is reached from here"};
}

Status Gateway::ask(const Endpoint& endpoint, std::string_view path, const std::string& body,
                    const std::function<Status(json::object&)>& read) const {
  net::HttpClientOptions http;
  http.address = endpoint.address;
  if (endpoint.tls) http.tls = [this] { return tls(); };
  http.connect_timeout = options_.deadline;
  http.blocking = &options_.blocking;
  const auto client = net::HttpClient::create(std::move(http), options_.io);

  SecretBytes token;
  if (!options_.user.empty()) {
    OSM_TRY(token, log_in(*client, endpoint));
  }
  OSM_TRY(net::Response response, send(*client, endpoint, path, body, token));
  return read_answer(response, read);
}

Result<SecretBytes> Gateway::log_in(net::HttpClient& client, const Endpoint& endpoint) const {
  OSM_TRY(std::string password, read_file(options_.password_file, kMaxFile));
  const EraseOnExit erased(password);
  while (password.ends_with('\n') || password.ends_with('\r')) password.pop_back();
  json::object login{{"name", options_.user}, {"password", password}};
  const EraseJsonOnExit built(login);
  const SecretBytes body(json::serialize(login));
  OSM_TRY(net::Response response, send(client, endpoint, "auth/authenticate", body.text(), {}));
  SecretBytes token;
  OSM_TRY(read_answer(response, [&](json::object& answer) {
    token = SecretBytes(text_at(answer, "token"));
    return Status();
  }));
  if (token.empty())
    return Error{ErrorCode::kPermissionDenied, "no token was given to user " + options_.user};
  return token;
}

Result<net::Response> Gateway::send(net::HttpClient& client, const Endpoint& endpoint,
                                    std::string_view path, const std::string& body,
                                    const SecretBytes& token) const {
  net::HttpRequest request{.method = "POST",
                           .target = "/v3/" + std::string(path),
                           .headers = {{"Content-Type", "application/json"}},
                           .body = body,
                           .deadline = options_.deadline,
                           .max_response_bytes = kMaxAnswer};
  if (!token.empty()) request.headers.emplace_back("Authorization", token.text());
  OSM_TRY(net::Response response, client.call(std::move(request)));
  if (response.status < 300) return response;
  return refusal(endpoint, response);
}

// The gateway's own errors are {"error": text, "message": text, "code": gRPC's number}.
Error Gateway::refusal(const Endpoint& endpoint, const net::Response& response) const {
  const json::object answer = parse_json_object(response.body, kAnswer).value_or({});
  std::string said = text_at(answer, "message");
  if (said.empty()) said = text_at(answer, "error");
  said = said.substr(0, kMaxQuoted);
  const std::int64_t code = number_at(answer, "code");

  if (response.status >= 500 || response.status == 429)
    return {ErrorCode::kUnavailable,
            "answers HTTP " + std::to_string(response.status) + (said.empty() ? "" : ": " + said)};
  // etcd refuses such certificates before the gateway, in plain text; a certificate without a
  // common name passes.
  if (response.status == 400 && response.body.starts_with("CommonName"))
    return {ErrorCode::kPermissionDenied,
            response.body.substr(0, response.body.find('\n')) +
                "; with --client-cert-auth and users of its own, etcd wants a client certificate "
                "without a common name here, and a user"};
  if (said.empty())
    return {ErrorCode::kInvalidArgument,
            "answers HTTP " + std::to_string(response.status) +
                " and is no etcd of version 3.4 or " +
                "later with its JSON gateway: look at --enable-grpc-gateway, and at the port " +
                std::to_string(endpoint.address.port)};
  if (code == kPreconditionCode)
    return {ErrorCode::kInvalidArgument, said + "; leave the user out, or turn etcd's users on"};
  if (response.status == 401 || response.status == 403 || code == kPermissionCode ||
      code == kInvalidArgumentCode)
    return {ErrorCode::kPermissionDenied,
            said + "; give a user of etcd, with its password, who may read and write key " +
                options_.key};
  return {ErrorCode::kInternal, "HTTP " + std::to_string(response.status) + ": " + said};
}

}  // namespace osm::inline v1::etcd
