#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/backoff.hpp"
#include "base/json.hpp"
#include "base/read_file.hpp"
#include "base/strand.hpp"
#include "osm/certificate/vault.hpp"
#include "osm/net/http_client.hpp"
#include "osm/notifier.hpp"
#include "vault/api.hpp"
#include "vault/ca_chain.hpp"
#include "vault/login.hpp"

namespace osm::inline v1::vault {
namespace {

namespace json = boost::json;
constexpr Gauge kVaultHealthy{"osm_vault_healthy", "1 while Vault answers and takes the token"};

using certificate::SigningRequest;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLookForRecovery(15);
constexpr seconds kClockSkew = std::chrono::minutes(1);
constexpr auto kConnectTimeout = seconds(5);

// True for errors of the request itself, not of Vault or the network: another request may succeed.
bool concerns_request(const Error& error) {
  return error.code == ErrorCode::kInvalidArgument || error.code == ErrorCode::kCertificateExpired;
}

net::HttpClientOptions client_options(const IssuerOptions& options) {
  net::HttpClientOptions http;
  http.address = options.address;
  http.connect_timeout = std::min<milliseconds>(kConnectTimeout, options.deadline);
  http.blocking = &options.runtime.blocking;
  if (options.tls)
    http.tls = [ca = options.ca_pem, name = options.server_name]() -> Result<net::ClientTls> {
      net::ClientTls tls;
      tls.server_name = name;
      if (!ca) return tls;
      OSM_TRY(tls.trusted_pem, ca());
      // An empty list means no roots, not all roots of the system.
      if (tls.trusted_pem.empty())
        return Error{ErrorCode::kInvalidCertificate, "the CA of Vault's certificate: it is empty"};
      return tls;
    };
  return http;
}

// Back-off for all requests to Vault: after a failure no request is sent for a while, so that due
// certificates do not overload a Vault in trouble.
// All calls: Thread: any. Blocking: no.
class Gate {
 public:
  // Lifetime: both outlive the gate.
  Gate(const Clock& clock, Rng& rng) : clock_(clock), rng_(rng) {}

  // Ok: send a request, then call passed() or failed(). Failure: the last one; the gate is shut.
  // When its time is over, one caller may send; the others fail until its result is known.
  Status enter() {
    const std::lock_guard lock(mutex_);
    if (!error_) return {};
    const auto left = retry_at_ - clock_.steady_now();
    if (left <= std::chrono::nanoseconds::zero()) {
      retry_at_ = clock_.steady_now() + kProbe;
      probing_ = true;
      return {};
    }
    Error error = *error_;
    error.message += " (Vault is asked again in " +
                     std::to_string(std::chrono::ceil<std::chrono::seconds>(left).count()) + " s)";
    return error;
  }

  // Result: true if it was shut.
  bool passed() {
    const std::lock_guard lock(mutex_);
    failures_ = 0;
    probing_ = false;
    return std::exchange(error_, std::nullopt).has_value();
  }

  // Result: true if it was open.
  bool failed(const Error& error) {
    const std::lock_guard lock(mutex_);
    const bool was_open = !error_;
    // Several simultaneous failures count once.
    if (was_open || std::exchange(probing_, false))
      retry_at_ = clock_.steady_now() + kBackoff.delay(++failures_, rng_);
    error_ = error;
    return was_open;
  }

  // Ok while it is open.
  Status state() const {
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return {};
  }

 private:
  static constexpr Backoff kBackoff{std::chrono::seconds(1), std::chrono::minutes(1)};
  static constexpr std::chrono::minutes kProbe{1};

  const Clock& clock_;
  Rng& rng_;
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  SteadyTime retry_at_{};
  unsigned failures_ = 0;
  bool probing_ = false;  // a caller that passed the shut gate sends a request
};

class VaultIssuer final : public certificate::Issuer {
 public:
  explicit VaultIssuer(const IssuerOptions& options)
      : mount_(options.mount),
        sign_path_(options.mount + "/sign/" + options.role),
        runtime_(options.runtime),
        http_(net::HttpClient::create(client_options(options), options.io)),
        api_(options, *http_),
        login_(options, api_),
        gate_(runtime_.clock, runtime_.rng),
        announcements_(runtime_.blocking),
        looks_(runtime_.blocking) {}
  ~VaultIssuer() override {
    looks_.stop();
    announcements_.stop();
  }

  Status start(milliseconds timeout);

  Result<std::string> sign(const SigningRequest& request) override;
  std::string trust_bundle_pem() const override { return chain().roots_pem; }
  std::string id() const override { return "vault:" + chain().fingerprint; }
  WallTime not_after() const override { return chain().not_after; }
  Status health() const override { return gate_.state(); }
  Subscription subscribe(std::function<void()> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  CaChain chain() const {
    const std::lock_guard lock(mutex_);
    return chain_;
  }

  Status read_chain();
  Result<seconds> look();
  void look_and_come_again();
  void come_again(seconds after);
  Result<std::string> sign_now(const SigningRequest& request);
  Result<json::object> ask(const SigningRequest& request, seconds ttl);
  Result<std::string> chain_of(const json::object& answer);
  void report(const Status& status);

  const std::string mount_;
  const std::string sign_path_;
  const Runtime runtime_;

  const std::unique_ptr<net::HttpClient> http_;
  Api api_;
  Login login_;
  Gate gate_;

  std::mutex reading_;  // held while the chain is read; before mutex_
  mutable std::mutex mutex_;
  CaChain chain_;  // guarded by mutex_
  Notifier<> changed_;

  // Sequence number of the last token that Vault refused to sign for.
  static constexpr std::uint64_t kNone = 0;
  std::atomic<std::uint64_t> refused_token_{kNone};

  Subscription timer_;  // used on looks_ only
  Strand announcements_;
  Strand looks_;
};

// Reads everything once. Vault may be starting as well, so it retries for a while.
Status VaultIssuer::start(milliseconds timeout) {
  milliseconds waited{0};
  auto looked = look();
  for (milliseconds pause{250}; !looked; pause = std::min<milliseconds>(pause * 2, seconds(2))) {
    if (looked.error().code != ErrorCode::kUnavailable || waited >= timeout) return looked.error();
    std::this_thread::sleep_for(pause - random_part(pause / 2, runtime_.rng));
    waited += pause;
    looked = look();
  }
  runtime_.metrics.set(kVaultHealthy, {}, 1);
  const CaChain found = chain();
  runtime_.log.info(
      "Vault signs for the mesh",
      {{"server", api_.server()}, {"path", sign_path_}, {"issuer", found.fingerprint}});
  looks_.post([this, after = *looked] { come_again(after); });
  return {};
}

// The chain is public, so the request carries no token.
Status VaultIssuer::read_chain() {
  const std::lock_guard reading(reading_);
  const std::string path = mount_ + "/cert/ca_chain";
  OSM_TRY(json::object answer, api_.call({.operation = "ca_chain", .path = path}));
  std::string pem = text_at(map_at(answer, "data"), "certificate");
  if (pem.empty()) {  // a root that signs, before Vault 1.11
    OSM_TRY(answer, api_.call({.operation = "ca_chain", .path = mount_ + "/cert/ca"}));
    pem = text_at(map_at(answer, "data"), "certificate");
  }
  auto read = read_ca_chain(pem);
  if (!read) return read.error().with_context("Vault " + api_.server() + ": " + path);
  {
    const std::lock_guard lock(mutex_);
    if (*read == chain_) return {};
    const bool first = chain_.fingerprint.empty();
    chain_ = *std::move(read);
    if (first) return {};
    runtime_.log.info("Vault's signing CA or its roots changed",
                      {{"server", api_.server()}, {"issuer", chain_.fingerprint}});
  }
  announcements_.post([this] { changed_.notify(); });
  return {};
}

// Result: latest time until the next check.
Result<seconds> VaultIssuer::look() {
  OSM_TRY(read_chain());
  return login_.look_after();
}

void VaultIssuer::look_and_come_again() {
  const auto looked = look();
  if (!looked)
    report(looked.error());
  else if (refused_token_ != login_.taken())
    report({});  // otherwise only a request shows if the refusal is over
  come_again(looked ? *looked : kLookForRecovery);
}

// Up to a tenth earlier, so that replicas that started together drift apart.
void VaultIssuer::come_again(seconds after) {
  const std::chrono::nanoseconds latest = after;
  timer_ = looks_.post_after(latest - random_part(latest / 10, runtime_.rng),
                             [this] { look_and_come_again(); });
}

// Records Vault's health, and logs a change once.
void VaultIssuer::report(const Status& status) {
  if (status) {
    if (gate_.passed()) runtime_.log.info("Vault answers again", {{"server", api_.server()}});
  } else if (gate_.failed(status.error())) {
    runtime_.log.warning("Vault does not sign; issued certificates stay in use",
                         {{"error", status.error().text()}});
  }
  runtime_.metrics.set(kVaultHealthy, {}, gate_.state().ok() ? 1 : 0);
}

Result<std::string> VaultIssuer::sign(const SigningRequest& request) {
  OSM_TRY(gate_.enter());
  auto chain = sign_now(request);
  const bool well = chain || concerns_request(chain.error());
  // Vault answers and its chain can be read, but it does not sign for this token.
  const bool refused = !well && chain.error().code != ErrorCode::kUnavailable;
  refused_token_ = refused ? login_.taken() : kNone;
  report(well ? Status() : Status(chain.error()));
  return chain;
}

Result<std::string> VaultIssuer::sign_now(const SigningRequest& request) {
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    return Error{code, "common name \"" + request.subject.common_name.str() + "\": " + why};
  };
  if (request.validity < seconds(1))
    return refuse(ErrorCode::kInvalidArgument, "the validity must be at least one second");
  const WallTime end = chain().not_after;
  const WallTime now = runtime_.clock.wall_now();
  // Vault refuses certificates that outlive its CA by its own clock, which may be ahead of this
  // one.
  seconds left = end > now ? std::chrono::floor<seconds>(end - now) : seconds::zero();
  left -= std::min(kClockSkew, left / 10);
  if (left < seconds(1))
    return refuse(ErrorCode::kCertificateExpired,
                  "the CA of Vault's mount " + mount_ + " has expired; rotate it there");
  OSM_TRY(const json::object answer, ask(request, std::min(request.validity, left)));
  return chain_of(answer);
}

// https://developer.hashicorp.com/vault/api-docs/secret/pki#sign-certificate
Result<json::object> VaultIssuer::ask(const SigningRequest& request, seconds ttl) {
  std::string dns_names;
  for (const std::string& name : request.subject.dns_names)
    dns_names.append(dns_names.empty() ? "" : ",").append(name);
  Call call{.operation = "sign",
            .path = sign_path_,
            .body = {{"csr", request.request_pem},
                     {"common_name", request.subject.common_name.str()},
                     {"uri_sans", request.subject.spiffe_id.str()},
                     {"alt_names", dns_names},
                     // Otherwise Vault makes a DNS SAN of the common name.
                     {"exclude_cn_from_sans", true},
                     {"ttl", std::to_string(ttl.count()) + "s"},
                     {"format", "pem"}},
            .token = {}};
  OSM_TRY(call.token, login_.token());
  auto answer = api_.call(call);
  if (!answer && answer.error().code == ErrorCode::kPermissionDenied) {
    // The token may be revoked, and a new one may be there already.
    login_.refused(call.token);
    OSM_TRY(SecretBytes other, login_.token());
    if (other != call.token) {
      call.token = std::move(other);
      answer = api_.call(call);
    }
  }
  if (!answer && answer.error().code == ErrorCode::kInvalidArgument)
    return Error{answer.error().code, "common name \"" + request.subject.common_name.str() +
                                          "\": " + answer.error().message +
                                          "; docs/certificates.md has the role that is needed"};
  return answer;
}

// Leaf and intermediates of the known chain. If the chain is unknown, read it first.
Result<std::string> VaultIssuer::chain_of(const json::object& answer) {
  const json::object& data = map_at(answer, "data");
  std::string leaf = text_at(data, "certificate");
  const auto issuer = fingerprint_of(text_at(data, "issuing_ca"));
  const std::string where = "Vault " + api_.server() + ": " + sign_path_;
  if (leaf.empty() || !issuer)
    return Error{ErrorCode::kInternal,
                 where + ": the answer has no certificate, or not that of its issuer"};
  if (*issuer != chain().fingerprint) OSM_TRY(read_chain());
  const CaChain known = chain();
  if (*issuer != known.fingerprint)
    return Error{ErrorCode::kInvalidCertificate,
                 where +
                     ": the role signs with another issuer than the mount's default one; "
                     "write issuer_ref=default into the role, or change the mount's default"};
  if (!leaf.ends_with('\n')) leaf += '\n';
  return leaf + known.intermediates_pem;
}

constexpr std::size_t kMaxFile = 256 * 1024;

// True for path segments of Vault's API that need no escapes.
bool is_path(std::string_view text) {
  return !text.empty() && text.front() != '/' && text.back() != '/' &&
         text.find("//") == std::string_view::npos && text.find("..") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.' || c == '/';
         });
}

Error wrong(std::string_view option, std::string_view cause) {
  return {ErrorCode::kInvalidArgument, "Vault: " + std::string(option) + ": " + std::string(cause)};
}

Status check_path(std::string_view option, std::string_view text) {
  if (is_path(text)) return {};
  return wrong(option, "must be a path of letters, digits, '-', '_' and '.'");
}

// Validates options before anything is sent. Failure: kInvalidArgument, naming the option.
Status check(const IssuerOptions& options) {
  const net::Address& address = options.address;
  if (!address.is_unix() && (address.host.empty() || address.port == 0))
    return wrong("address", "name the host and the port of the server");
  if (!options.tls && !address.is_this_machine())
    return wrong("address", address.str() +
                                " is another machine, and plain HTTP would show the token to "
                                "everybody in between; use https");
  OSM_TRY(check_path("mount", options.mount));
  OSM_TRY(check_path("role", options.role));
  std::string_view ns = options.vault_namespace;
  if (ns.ends_with('/')) ns.remove_suffix(1);  // as Vault itself writes them
  if (!options.vault_namespace.empty()) OSM_TRY(check_path("namespace", ns));
  if (static_cast<bool>(options.token) == options.kubernetes.has_value())
    return wrong("login", "give a token, or a role of Kubernetes auth, and not both");
  if (options.kubernetes) {
    if (!options.kubernetes->jwt) return wrong("login", "name the ServiceAccount's token");
    if (options.kubernetes->role.empty()) return wrong("auth role", "is missing");
    return check_path("auth mount", options.kubernetes->mount);
  }
  return {};
}

}  // namespace

Source from_file(std::string path) {
  return [path = std::move(path)] { return read_file(path, kMaxFile); };
}

Result<std::unique_ptr<certificate::Issuer>> make_vault_issuer(const IssuerOptions& options) {
  OSM_TRY(check(options));
  auto issuer = std::make_unique<VaultIssuer>(options);
  OSM_TRY(issuer->start(options.start_timeout));
  return std::unique_ptr<certificate::Issuer>(std::move(issuer));
}

}  // namespace osm::inline v1::vault
