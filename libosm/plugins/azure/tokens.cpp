#include "azure/tokens.hpp"

#include <algorithm>
#include <utility>

#include "azure/caller.hpp"
#include "base/read_file.hpp"

namespace osm::inline v1::azure {
namespace {

using std::chrono::seconds;

constexpr std::size_t kMaxSecret = 4096;
constexpr seconds kLoginPause(10);  // between failed attempts
constexpr seconds kMargin(300);     // a token is replaced so long before its end
constexpr const char* kIdentityVersion = "2018-02-01";

void trim(std::string& text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.erase(text.find_last_not_of(kSpace) + 1);
  text.erase(0, text.find_first_not_of(kSpace));
}

std::string origin(const Server& server) {
  const std::string host = server.address.host.find(':') == std::string::npos
                               ? server.address.host
                               : '[' + server.address.host + ']';
  const bool usual = server.address.port == (server.tls ? 443 : 80);
  return (server.tls ? "https://" : "http://") + host +
         (usual ? "" : ':' + std::to_string(server.address.port));
}

}  // namespace

Result<std::unique_ptr<Tokens>> Tokens::make(const AzureResolverOptions& options, Ending& ending) {
  const AzureSettings& settings = options.settings;
  if (settings.client.has_value() == settings.managed.has_value())
    return Error{ErrorCode::kInvalidField,
                 "give one identity: tenant, clientID and clientSecretFile, or managedIdentity"};
  OSM_TRY(const Server server,
          parse_server(settings.client ? settings.client->authority : settings.managed->metadata));
  return std::unique_ptr<Tokens>(new Tokens(options, server, ending));
}

// https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
// https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
Result<net::HttpRequest> Tokens::request() const {
  OSM_TRY(const Server arm, parse_server(options_.settings.endpoint));
  net::HttpRequest out;
  if (const auto& managed = options_.settings.managed) {
    out.target = std::string("/metadata/identity/oauth2/token?api-version=") + kIdentityVersion +
                 "&resource=" + net::encode_query_text(origin(arm) + '/');
    if (!managed->client_id.empty())
      out.target += "&client_id=" + net::encode_query_text(managed->client_id);
    out.headers = {{"Metadata", "true"}};
    return out;
  }
  const ClientCredentials& client = *options_.settings.client;
  OSM_TRY(std::string secret, read_file(client.secret_file, kMaxSecret));
  const EraseOnExit erased(secret);
  trim(secret);
  if (secret.empty())
    return Error{ErrorCode::kUnreadableSource,
                 client.secret_file + " is empty; write the client secret into it"};
  out.method = "POST";
  out.target = '/' + client.tenant + "/oauth2/v2.0/token";
  out.headers = {{"Content-Type", "application/x-www-form-urlencoded"}};
  out.body = "grant_type=client_credentials&client_id=" + net::encode_query_text(client.client_id) +
             "&scope=" + net::encode_query_text(origin(arm) + "/.default") +
             "&client_secret=" + net::encode_query_text(secret);
  return out;
}

Result<Token> Tokens::log_in() {
  OSM_TRY(net::HttpRequest asked, request());
  auto response = caller_.call(std::move(asked));
  const std::string server = origin(caller_.server());
  const std::string code = response ? std::to_string(response->status)
                                    : std::string(error_code_text(response.error().code));
  options_.runtime.metrics.add(kAzureRequests, {{"operation", "token"}, {"code", code}}, 1);
  if (!response) return Error{ErrorCode::kUnavailable, server + ": " + response.error().message};
  const EraseOnExit erased(response->body);
  if (response->status == 200) {
    auto token = read_token(response->body);
    return token ? std::move(token) : token.error().with_context(server);
  }
  const bool later = response->status == 429 || response->status >= 500;
  const std::string word = token_error_of(response->body);
  return Error{later ? ErrorCode::kUnavailable : ErrorCode::kPermissionDenied,
               server + " gives no token: it answered " + std::to_string(response->status) +
                   (word.empty() ? "" : " (" + word + ")") +
                   (later ? "" : "; check tenant, clientID and the secret, or the identity")};
}

Result<SecretBytes> Tokens::token() {
  const std::lock_guard taking(taking_);
  const SteadyTime now = options_.runtime.clock.steady_now();
  {
    const std::lock_guard lock(mutex_);
    if (!token_.empty() && now < renew_at_) return token_;
    if (problem_ && now < again_at_) return *problem_;
  }
  auto taken = log_in();
  const std::lock_guard lock(mutex_);
  if (!taken) {
    again_at_ = now + kLoginPause;
    problem_ = taken.error();
    return *problem_;
  }
  problem_.reset();
  token_ = taken->text;
  renew_at_ = now + std::max(taken->life - kMargin, taken->life / 2);
  return token_;
}

void Tokens::refused(const SecretBytes& token) {
  const std::lock_guard lock(mutex_);
  if (token_ == token) token_ = {};
}

std::optional<Error> Tokens::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

}  // namespace osm::inline v1::azure
