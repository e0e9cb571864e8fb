#include "vault/login.hpp"

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "base/secret_json.hpp"

namespace osm::inline v1::vault {
namespace {

namespace json = boost::json;
constexpr Gauge kVaultTokenExpiry{"osm_vault_token_expiry_seconds",
                                  "Seconds until Vault's token ends, unless it is renewed"};

using std::chrono::seconds;

constexpr std::size_t kMaxToken = 16 * 1024;
constexpr seconds kLook = std::chrono::minutes(1);
constexpr seconds kLeast(1);

void trim(std::string& text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.erase(text.find_last_not_of(kSpace) + 1);
  text.erase(0, text.find_first_not_of(kSpace));
}

// A token must be one word, since it goes into a header.
bool is_token(const std::string& text) {
  return !text.empty() && text.size() <= kMaxToken &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

Result<SecretBytes> read_token(const Source& source, std::string_view what) {
  OSM_TRY(std::string text, source());
  const EraseOnExit erased(text);
  trim(text);
  if (!is_token(text))
    return Error{ErrorCode::kUnreadableSource,
                 std::string(what) + " is not a token: it must be one word of printable letters"};
  return SecretBytes(std::move(text));
}

}  // namespace

Result<SecretBytes> Login::token() {
  const std::lock_guard taking(taking_);
  {
    const std::lock_guard lock(mutex_);
    if (!token_.empty()) return token_;
  }
  OSM_TRY(SecretBytes taken, options_.kubernetes ? log_in() : read());
  const std::lock_guard lock(mutex_);
  if (std::exchange(last_, taken) != taken) ++taken_;
  token_ = taken;
  return taken;
}

void Login::refused(const SecretBytes& token) {
  const std::lock_guard lock(mutex_);
  if (token_ == token) token_ = {};
}

Result<SecretBytes> Login::read() const {
  return read_token(options_.token, "what was given to log in to Vault with");
}

// https://developer.hashicorp.com/vault/api-docs/auth/kubernetes#login
Result<SecretBytes> Login::log_in() {
  const KubernetesLogin& login = *options_.kubernetes;
  OSM_TRY(const SecretBytes jwt, read_token(login.jwt, "the ServiceAccount's token"));
  Call call{.operation = "login",
            .path = "auth/" + login.mount + "/login",
            .body = {{"role", login.role}, {"jwt", jwt.text()}}};
  const EraseJsonOnExit asked(call.body);
  OSM_TRY(json::object answer, api_.call(call));
  const EraseJsonOnExit answered(answer);
  SecretBytes token(text_at(map_at(answer, "auth"), "client_token"));
  if (!is_token(token.text()))
    return Error{ErrorCode::kInternal, "Vault answered a login of Kubernetes auth role \"" +
                                           login.role + "\" without a token"};
  options_.runtime.log.info("logged in to Vault", {{"auth_role", login.role}});
  return token;
}

// https://developer.hashicorp.com/vault/api-docs/auth/token#lookup-a-token-self
Result<Login::Life> Login::look_up(const SecretBytes& token) {
  OSM_TRY(const json::object answer,
          api_.call({.operation = "lookup", .path = "auth/token/lookup-self", .token = token}));
  const json::object& data = map_at(answer, "data");
  if (data.empty())
    return Error{ErrorCode::kInternal, "Vault described the token without any data"};
  const seconds left = seconds_at(data, "ttl");
  // For a periodic token, the length of each renewal.
  const seconds whole = std::max(seconds_at(data, "period"), seconds_at(data, "creation_ttl"));
  return Life{left, std::max(whole, left), bool_at(data, "renewable").value_or(false)};
}

// https://developer.hashicorp.com/vault/api-docs/auth/token#renew-a-token-self
Result<Login::Life> Login::renew(const SecretBytes& token, const Life& life) {
  OSM_TRY(const json::object answer, api_.call({.operation = "renew",
                                                .path = "auth/token/renew-self",
                                                .body = {{"increment", life.whole.count()}},
                                                .token = token}));
  const json::object& auth = map_at(answer, "auth");
  if (auth.empty()) return Error{ErrorCode::kInternal, "Vault renewed the token without saying so"};
  return Life{seconds_at(auth, "lease_duration"), life.whole,
              bool_at(auth, "renewable").value_or(false)};
}

// True at a random time in the third quarter of its life, so that replicas do not renew at once.
bool Login::due(const Life& life) {
  const auto quarter = std::max<std::int64_t>(1, life.whole.count() / 4);
  const auto from = static_cast<std::uint64_t>(quarter);
  return life.left.count() <=
         quarter + static_cast<std::int64_t>(options_.runtime.rng.next() % from);
}

void Login::report(const Life& life) {
  if (life.left != seconds::zero()) options_.runtime.metrics.set(kVaultTokenExpiry, {}, life.left);
}

Result<seconds> Login::look_after() {
  if (!options_.kubernetes) {
    OSM_TRY(const SecretBytes now, read());
    const std::lock_guard lock(mutex_);
    if (token_ != now) token_ = {};  // another token is in its place
  }
  OSM_TRY(SecretBytes held, token());
  auto life = look_up(held);
  if (!life && life.error().code == ErrorCode::kPermissionDenied && options_.kubernetes) {
    refused(held);
    OSM_TRY(held, token());
    life = look_up(held);
  }
  if (!life) return life.error();

  const bool ends = life->left != seconds::zero();
  if (ends && due(*life)) {
    const auto renewed = life->renewable ? renew(held, *life) : Result<Life>(*life);
    // Near its longest life a token is renewed only for the rest of it, which does not help.
    const bool useful = renewed && renewed->left > life->whole / 2;
    if (renewed) life = *renewed;
    if (!useful && options_.kubernetes) {
      refused(held);
      OSM_TRY(held, token());
      life = look_up(held);
      if (!life) return life.error();
    } else if (!useful && !std::exchange(warned_, true)) {
      options_.runtime.log.warning(
          "Vault's token ends soon and cannot be renewed any more; put another in its place",
          {{"seconds", std::to_string(life->left.count())},
           {"cause", renewed ? "its longest life is reached" : renewed.error().message}});
    }
    if (useful) warned_ = false;
  }
  report(*life);
  return life->left == seconds::zero() ? kLook : std::clamp(life->left / 5, kLeast, kLook);
}

}  // namespace osm::inline v1::vault
