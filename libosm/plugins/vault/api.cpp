#include "vault/api.hpp"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "base/json.hpp"
#include "osm/net/http.hpp"

namespace osm::inline v1::vault {
namespace {

namespace json = boost::json;

constexpr Counter kVaultRequests{"osm_vault_requests_total",
                                 "Requests to Vault, by operation and answer",
                                 {"operation", "code"}};
constexpr Histogram kVaultRequest{
    "osm_vault_request_seconds", "Seconds until Vault answered, by operation", {"operation"}};

constexpr std::size_t kMaxAnswer = 1024 * 1024;
constexpr std::size_t kMaxWords = 300;  // limit of quoted text of Vault

// https://developer.hashicorp.com/vault/api-docs#http-status-codes
ErrorCode code_of(int status) {
  switch (status) {
    case 400:
    case 404:
    case 405:
      return ErrorCode::kInvalidArgument;
    case 401:
    case 403:
      return ErrorCode::kPermissionDenied;
    case 307:  // a standby that does not forward
    case 412:  // a standby that is behind
    case 429:  // too many requests; a standby
    case 472:  // a secondary for disaster recovery
    case 473:  // a standby for performance
      return ErrorCode::kUnavailable;
    default:
      return status >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInternal;
  }
}

std::string_view remedy_of(int status, bool with_token) {
  switch (status) {
    case 307:
    case 472:
    case 473:
      return "; this node is a standby: name the address of the cluster, or let it forward";
    case 403:
      // A public path that does not exist for this caller does not exist for any.
      if (!with_token) return "; check the mount and the namespace: there is none such for Vault";
      return "; give a token that is valid, with the policy of docs/certificates.md";
    case 404:
      return "; check the mount, the role and the namespace";
    case 503:
      return "; unseal it (vault operator unseal)";
    default:
      return "";
  }
}

// Foreign text is quoted in part, and as one line.
std::string quotable(std::string_view text) {
  std::string out(text.substr(0, kMaxWords));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, ' ');
  out.erase(
      std::unique(out.begin(), out.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      out.end());
  while (out.ends_with(' ')) out.pop_back();
  return text.size() > kMaxWords ? out + "..." : out;
}

// {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}
std::string words_of(const net::Response& response) {
  std::string words;
  const auto answer = parse_json_object(response.body, "the answer");
  if (!answer) return words;
  for (const json::value& each : list_at(*answer, "errors"))
    if (each.is_string())
      words.append(words.empty() ? "" : "; ").append(std::string_view(each.get_string()));
  return words;
}

void take_out(std::string& text, std::string_view secret) {
  if (secret.empty()) return;
  for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at))
    text.replace(at, secret.size(), "[secret]");
}

std::string without_secrets(const Call& call, std::string_view words) {
  std::string text(words);
  take_out(text, call.token.text());
  take_out(text, text_at(call.body, "jwt"));
  return text;
}

}  // namespace

Api::Api(const IssuerOptions& options, net::HttpClient& http)
    : options_(options),
      server_((options.tls ? "https://" : "http://") + options.address.str()),
      http_(http) {}

Error Api::error(const Call& call, ErrorCode code, std::string_view cause) const {
  return {code, "Vault " + server_ + ": " + call.path + ": " + without_secrets(call, cause)};
}

Result<json::object> Api::read(const Call& call, const net::Response& response) const {
  const int status = response.status;
  if (status == 204) return json::object();
  if (status != 200) {
    // Remove tokens before cutting: half a token would not be found.
    std::string words = quotable(without_secrets(call, words_of(response)));
    if (words.empty()) words = "answered " + std::to_string(status);
    return error(call, code_of(status), words.append(remedy_of(status, !call.token.empty())));
  }
  auto answer = parse_json_object(response.body, "the answer");
  if (!answer)
    return error(call, ErrorCode::kInternal,
                 "the answer is not Vault's: no JSON object; is this address Vault's?");
  return answer;
}

Result<json::object> Api::call(const Call& call) {
  net::HttpRequest request;
  request.method = call.body.empty() ? "GET" : "PUT";
  request.target = "/v1/" + call.path;
  request.headers = {{"Accept", "application/json"}, {"X-Vault-Request", "true"}};
  if (!call.token.empty()) request.headers.emplace_back("X-Vault-Token", call.token.text());
  if (!options_.vault_namespace.empty())
    request.headers.emplace_back("X-Vault-Namespace", options_.vault_namespace);
  if (!call.body.empty()) {
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = json::serialize(call.body);
  }
  request.deadline = options_.deadline;
  request.max_response_bytes = kMaxAnswer;

  const SteadyTime start = options_.runtime.clock.steady_now();
  auto response = http_.call(std::move(request));
  const auto took = options_.runtime.clock.steady_now() - start;
  const std::string code = response ? std::to_string(response->status)
                                    : std::string(error_code_text(response.error().code));
  options_.runtime.metrics.add(kVaultRequests, {{"operation", call.operation}, {"code", code}}, 1);
  options_.runtime.metrics.observe(kVaultRequest, {{"operation", call.operation}}, took);
  if (response) {
    const EraseOnExit erased(response->body);
    return read(call, *response);
  }
  const ErrorCode failed = response.error().code;
  return error(call, failed == ErrorCode::kDeadlineExceeded ? ErrorCode::kUnavailable : failed,
               response.error().message);
}

std::chrono::seconds seconds_at(const json::object& map, std::string_view name) {
  constexpr std::int64_t kMost = 100LL * 366 * 86400;  // a century: sums of it do not overflow
  return std::chrono::seconds(std::clamp<std::int64_t>(number_at(map, name), 0, kMost));
}

}  // namespace osm::inline v1::vault
