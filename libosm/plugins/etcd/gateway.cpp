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

constexpr std::size_t kMaxQuoted = 512;         // limit of a quoted error text
constexpr std::size_t kMaxRefusal = 64 * 1024;  // of a refused stream
constexpr std::size_t kMaxFile = 1024 * 1024;
constexpr const char* kAnswer = "the answer";  // as errors name it
constexpr std::string_view kTls = "https://";
constexpr std::string_view kPlain = "http://";
constexpr const char* kPort = ":2379";

// https://grpc.github.io/grpc/core/md_doc_statuscodes.html
enum GrpcCode {
  kInvalidArgumentCode = 3,
  kNotFoundCode = 5,
  kPermissionCode = 7,
  kPreconditionCode = 9,
  kOutOfRangeCode = 11
};

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

Error refused(const std::string& why) {
  return {ErrorCode::kInvalidArgument, "certificate authority in etcd: " + why};
}

Error refused_endpoint(const std::string& text, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "etcd endpoint '" + text + "': " + why};
}

// Failure: kInvalidArgument, with the remedy, for an invalid URL and for plain HTTP to another
// machine.
Result<Endpoint> parse_endpoint(const std::string& text) {
  std::string_view rest = text;
  const bool tls = rest.starts_with(kTls);
  if (!tls && !rest.starts_with(kPlain))
    return refused_endpoint(text, "is no URL of an etcd: write https://HOST:2379");
  rest.remove_prefix((tls ? kTls : kPlain).size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@") != std::string_view::npos)
    return refused_endpoint(text, "has more than scheme, host and port: write https://HOST:2379");

  std::string host_and_port(rest);
  const auto bracket = host_and_port.rfind(']');
  const auto after_host = bracket == std::string::npos ? 0 : bracket;
  if (host_and_port.find(':', after_host) == std::string::npos) host_and_port += kPort;
  const auto address = net::parse_address(host_and_port);
  if (!address.ok()) return refused_endpoint(text, address.error().message);
  if (address->is_unix()) return refused_endpoint(text, "is a socket: write https://HOST:2379");
  if (!tls && !address->is_this_machine())
    return refused_endpoint(
        text,
        "would show the CA's key to the network: write https://, and let etcd serve "
        "TLS (--cert-file, --key-file)");
  return Endpoint{std::string(tls ? kTls : kPlain) + address->str(), *address, tls};
}

}  // namespace

Result<std::unique_ptr<Gateway>> Gateway::open(CaStoreOptions options) {
  if (options.endpoints.empty())
    return refused("no endpoint is given: name at least one, such as https://10.0.0.1:2379");
  if (options.key.empty()) return refused("the key is empty: name one, such as /osm/ca");
  if (options.certificate_file.empty() != options.key_file.empty())
    return refused("a client certificate and its key are given together, or neither");
  if (options.user.empty() != options.password_file.empty())
    return refused("a user and the file of its password are given together, or neither");
  std::vector<Endpoint> endpoints;
  for (const std::string& text : options.endpoints) {
    OSM_TRY(Endpoint endpoint, parse_endpoint(text));
    endpoints.push_back(std::move(endpoint));
  }
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(options), std::move(endpoints)));
  // Check readable inputs now rather than at the first request.
  if (const auto tls = gateway->tls(); !tls.ok())
    return tls.error().with_context(gateway->name_of(gateway->options_.key));
  return gateway;
}

Gateway::Gateway(CaStoreOptions options, std::vector<Endpoint> endpoints)
    : options_(std::move(options)), endpoints_(std::move(endpoints)) {}

std::string Gateway::name_of(std::string_view key) const {
  std::string name = "key " + std::string(key) + " of etcd (";
  for (const Endpoint& endpoint : endpoints_)
    name.append(name.ends_with('(') ? "" : ", ").append(endpoint.url);
  return name + ')';
}

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

Status Gateway::post(const Question& question, const std::function<Status(json::object&)>& read,
                     bool* repeated) const {
  std::string reasons;
  const std::size_t first = answered_;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const std::size_t at = (first + i) % endpoints_.size();
    if (repeated) *repeated = i > 0;
    const Status asked = ask(at, question, read);
    if (asked.ok()) {
      answered_ = at;
      return asked;
    }
    if (!may_pass(asked.error())) return asked.error().with_context(url_of(at));
    reasons.append(reasons.empty() ? "" : "; ")
        .append(url_of(at))
        .append(": ")
        .append(asked.error().message);
  }
  return Error{ErrorCode::kUnavailable,
               "no endpoint of etcd answers (" + reasons +
                   "); see that etcd runs there, has a leader, and is reached from here"};
}

std::unique_ptr<net::HttpClient> Gateway::connect(const Endpoint& endpoint) const {
  net::HttpClientOptions http;
  http.address = endpoint.address;
  if (endpoint.tls) http.tls = [this] { return tls(); };
  http.connect_timeout = options_.deadline;
  http.blocking = &options_.blocking;
  return net::HttpClient::create(std::move(http), options_.io);
}

Status Gateway::ask(std::size_t at, const Question& question,
                    const std::function<Status(json::object&)>& read) const {
  const Endpoint& endpoint = endpoints_[at];
  const auto client = connect(endpoint);
  OSM_TRY(net::Response response, send_as_user(*client, endpoint, question));
  return read_answer(response, read);
}

// A member without a leader would keep a watch open and silent; with the header it ends it:
// https://etcd.io/docs/v3.4/learning/api/ (WithRequireLeader of etcd's own client).
Result<Stream> Gateway::open_stream(std::size_t at, const Question& question,
                                    StreamEvents events) const {
  const Endpoint& endpoint = endpoints_[at];
  Stream stream{connect(endpoint), {}};
  SecretBytes token;
  if (!options_.user.empty()) {
    token = known_token();
    if (token.empty()) {
      OSM_TRY(token, log_in(*stream.client, endpoint));
    }
  }
  net::HttpRequest asked = request(question, token);
  asked.headers.emplace_back("Grpc-Metadata-hasleader", "true");

  const auto refused = std::make_shared<net::Response>();  // status 200: it is not refused
  const auto data = std::move(events.on_data);
  const auto end = std::move(events.on_end);
  stream.call = stream.client->open_stream(
      std::move(asked), {.on_head = [refused](const net::Response& head) { *refused = head; },
                         .on_data =
                             [refused, data](std::string_view text) {
                               if (refused->status < 300) return data(text);
                               if (refused->body.size() < kMaxRefusal) refused->body.append(text);
                             },
                         .on_end =
                             [this, refused, end, &endpoint](const Status& status) {
                               if (refused->status < 300) return end(status);
                               const Error error = refusal(endpoint, *refused);
                               if (error.code == ErrorCode::kPermissionDenied) forget_token();
                               end(error);
                             }});
  return stream;
}

Result<net::Response> Gateway::send_as_user(net::HttpClient& client, const Endpoint& endpoint,
                                            const Question& question) const {
  if (options_.user.empty()) return send(client, endpoint, question, {});
  SecretBytes token = known_token();
  if (!token.empty()) {
    auto response = send(client, endpoint, question, token);
    // A token ends after some minutes, and when etcd restarts or its users change.
    if (response.ok() || response.error().code != ErrorCode::kPermissionDenied) return response;
  }
  OSM_TRY(token, log_in(client, endpoint));
  return send(client, endpoint, question, token);
}

SecretBytes Gateway::known_token() const {
  const std::lock_guard lock(mutex_);
  return token_;
}

void Gateway::forget_token() const {
  const std::lock_guard lock(mutex_);
  token_ = {};
}

Result<SecretBytes> Gateway::log_in(net::HttpClient& client, const Endpoint& endpoint) const {
  OSM_TRY(std::string password, read_file(options_.password_file, kMaxFile));
  const EraseOnExit erased(password);
  while (password.ends_with('\n') || password.ends_with('\r')) password.pop_back();
  json::object login{{"name", options_.user}, {"password", password}};
  const EraseJsonOnExit built(login);
  std::string body = json::serialize(login);
  const EraseOnExit written(body);
  OSM_TRY(net::Response response, send(client, endpoint, {"auth/authenticate", body}, {}));
  SecretBytes token;
  OSM_TRY(read_answer(response, [&](json::object& answer) {
    token = SecretBytes(text_at(answer, "token"));
    return Status();
  }));
  if (token.empty())
    return Error{ErrorCode::kPermissionDenied, "no token was given to user " + options_.user};
  const std::lock_guard lock(mutex_);
  token_ = token;
  return token;
}

net::HttpRequest Gateway::request(const Question& question, const SecretBytes& token) const {
  net::HttpRequest request{.method = "POST",
                           .target = "/v3/" + std::string(question.path),
                           .headers = {{"Content-Type", "application/json"}},
                           .body = question.body,
                           .deadline = options_.deadline,
                           .max_response_bytes = question.max_answer};
  if (!token.empty()) request.headers.emplace_back("Authorization", token.text());
  return request;
}

Result<net::Response> Gateway::send(net::HttpClient& client, const Endpoint& endpoint,
                                    const Question& question, const SecretBytes& token) const {
  OSM_TRY(net::Response response, client.call(request(question, token)));
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
  if (code == kNotFoundCode) return {ErrorCode::kNotFound, said};
  if (code == kOutOfRangeCode) return {ErrorCode::kGone, said};
  if (code == kPreconditionCode)
    return {ErrorCode::kInvalidArgument, said + "; leave the user out, or turn etcd's users on"};
  if (response.status == 401 || response.status == 403 || code == kPermissionCode ||
      code == kInvalidArgumentCode)
    return {ErrorCode::kPermissionDenied,
            said + "; give a user of etcd, with its password, who may read and write key " +
                options_.key + " and the keys below it"};
  return {ErrorCode::kInternal, "HTTP " + std::to_string(response.status) + ": " + said};
}

}  // namespace osm::inline v1::etcd
