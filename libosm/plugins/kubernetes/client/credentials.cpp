#include "kubernetes/client/credentials.hpp"

#include <boost/json.hpp>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "kubernetes/client/program.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr auto kReadTokenAgain = std::chrono::minutes(1);
// Clocks differ, and a request takes its time.
constexpr auto kRenewBefore = std::chrono::seconds(30);
constexpr std::size_t kMaxTokenFileBytes = 64 * 1024;

void trim(std::string& text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text.erase(0, text.find_first_not_of(" \t\r\n"));
}

// "2026-11-21T16:00:00Z", as ExecCredential writes times; fractions are cut off.
std::optional<WallTime> parse_time(const std::string& text) {
  std::tm time{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (rest && *rest == '.') rest += 1 + std::strspn(rest + 1, "0123456789");
  if (rest) rest = ::strptime(rest, "%z", &time);
  if (!rest || *rest != '\0') return std::nullopt;
  const std::chrono::seconds offset(time.tm_gmtoff);  // ::timegm() overwrites it
  return std::chrono::system_clock::from_time_t(::timegm(&time)) - offset;
}

Result<std::string> pem_of(const Access& access, const PemSource& source) {
  if (source.path.empty()) return source.pem;
  return access.read(source.path);
}

}  // namespace

Credentials::Credentials(Access access, std::map<std::string, std::string> environment,
                         const Clock& clock)
    : access_(std::move(access)), environment_(std::move(environment)), clock_(clock) {}

std::optional<Result<std::string>> Credentials::token_at_hand() {
  std::lock_guard lock(mutex_);
  if (!access_.token_file.empty()) return read_token_file();
  if (!access_.exec) return Result<std::string>(access_.token);
  if (granted_ && (!granted_->expires || clock_.wall_now() + kRenewBefore < *granted_->expires))
    return Result<std::string>(granted_->token);
  return std::nullopt;
}

Result<std::string> Credentials::token() {
  if (auto known = token_at_hand()) return *std::move(known);
  std::lock_guard running(running_);
  if (auto known = token_at_hand()) return *std::move(known);  // another caller has just made it
  auto granted = run_plugin();
  std::lock_guard lock(mutex_);
  if (!granted.ok()) {
    // Use the unexpired token while the plugin fails.
    if (granted_ && clock_.wall_now() < granted_->expires.value_or(WallTime::max()))
      return granted_->token;
    return granted.error();
  }
  granted_ = *std::move(granted);
  return granted_->token;
}

Result<std::string> Credentials::read_token_file() {
  const WallTime now = clock_.wall_now();
  // A calendar that was set back must not prolong an old token.
  if (granted_ && granted_->expires && now < *granted_->expires &&
      *granted_->expires - now <= kReadTokenAgain)
    return granted_->token;
  auto content = access_.read(access_.token_file);
  if (content.ok()) trim(*content);
  const bool usable = content.ok() && !content->empty() && content->size() <= kMaxTokenFileBytes &&
                      content->find_first_of("\r\n") == std::string::npos;
  if (!usable && granted_) return granted_->token;
  if (!content.ok()) return content.error();
  if (!usable)
    return Error{ErrorCode::kUnreadableSource,
                 access_.token_file + ": holds no token; it must be one line"};
  granted_ = Granted{*std::move(content), {}, nullptr, now + kReadTokenAgain};
  return granted_->token;
}

void Credentials::refused(const std::string& token) {
  std::lock_guard lock(mutex_);
  if (granted_ && granted_->token == token) granted_.reset();
}

Result<net::ClientTls> Credentials::tls() const {
  net::ClientTls tls;
  tls.server_name = access_.tls_server_name;
  OSM_TRY(tls.trusted_pem, pem_of(access_, access_.certificate_authority));
  if (!access_.certificate_authority.empty() && tls.trusted_pem.empty())
    return Error{ErrorCode::kUnreadableSource,
                 access_.certificate_authority.path + ": holds no certificate"};
  if (!access_.client_certificate.empty()) {
    OSM_TRY(tls.certificate_pem, pem_of(access_, access_.client_certificate));
    tls.private_key = access_.client_key;
    if (tls.private_key == nullptr) {
      OSM_TRY(std::string key, access_.read(access_.client_key_file));
      tls.private_key = std::make_shared<const certificate::PrivateKey>(std::move(key));
    }
  }
  std::lock_guard lock(mutex_);
  if (granted_ && granted_->key != nullptr) {
    tls.certificate_pem = granted_->certificate_pem;
    tls.private_key = granted_->key;
  }
  return tls;
}

Result<Credentials::Granted> Credentials::run_plugin() const {
  json::object spec{{"interactive", false}};
  if (access_.exec->provide_cluster_info) {
    json::object cluster{{"server", access_.server}};
    if (!access_.tls_server_name.empty()) cluster["tls-server-name"] = access_.tls_server_name;
    if (!access_.certificate_authority.empty()) {
      OSM_TRY(const std::string roots, pem_of(access_, access_.certificate_authority));
      cluster["certificate-authority-data"] = base64(roots);
    }
    spec["cluster"] = std::move(cluster);
  }
  Program program{access_.exec->command, access_.exec->arguments, environment_};
  for (const auto& [name, value] : access_.exec->environment) program.environment[name] = value;
  program.environment["KUBERNETES_EXEC_INFO"] =
      json::serialize(json::object{{"apiVersion", access_.exec->api_version},
                                   {"kind", "ExecCredential"},
                                   {"spec", std::move(spec)}});
  auto output = run_program(program);
  if (output.ok()) return parse(*output);
  std::string remedy = "; run it by hand to see why";
  if (output.error().code == ErrorCode::kNotFound && !access_.exec->install_hint.empty())
    remedy = "; " + access_.exec->install_hint;
  return Error{output.error().code,
               access_.origin + ": credential plugin " + output.error().message + remedy};
}

Result<Credentials::Granted> Credentials::parse(const std::string& output) const {
  const auto refuse = [&](std::string_view cause) {
    return Error{ErrorCode::kInvalidSyntax, access_.origin + ": credential plugin " +
                                                access_.exec->command + ": " + std::string(cause)};
  };
  const auto credential = parse_json_object(output, "");
  if (!credential.ok() || text_at(*credential, "kind") != "ExecCredential")
    return refuse("did not print an ExecCredential");
  if (text_at(*credential, "apiVersion") != access_.exec->api_version)
    return refuse("printed another apiVersion than " + access_.exec->api_version +
                  "; set apiVersion of the kubeconfig's exec section to the plugin's");
  if (member(*credential, "status") == nullptr) return refuse("printed no status");
  const json::object& status = map_at(*credential, "status");

  Granted granted;
  granted.token = text_at(status, "token");
  if (granted.token.find_first_of("\r\n") != std::string::npos)
    return refuse("printed a token of several lines");
  granted.certificate_pem = text_at(status, "clientCertificateData");
  if (std::string key = text_at(status, "clientKeyData"); !key.empty())
    granted.key = std::make_shared<const certificate::PrivateKey>(std::move(key));
  if (granted.certificate_pem.empty() != (granted.key == nullptr))
    return refuse("printed half of a certificate and key");
  if (granted.token.empty() && granted.key == nullptr)
    return refuse("printed neither a token nor a certificate");
  if (const std::string expires = text_at(status, "expirationTimestamp"); !expires.empty()) {
    granted.expires = parse_time(expires);
    if (!granted.expires) return refuse("printed an expirationTimestamp that is no RFC 3339 time");
  }
  return granted;
}

}  // namespace osm::inline v1::kubernetes
