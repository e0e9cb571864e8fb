// `osm vm renew`: a machine replaces its own certificate, with a key that it makes itself.
#include <openssl/sha.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/backoff.hpp"
#include "base/times.hpp"
#include "command.hpp"
#include "machine_files.hpp"
#include "osm/certificate/request.hpp"
#include "osm/result.hpp"
#include "osm/runtime/system.hpp"
#include "process.hpp"
#include "renewal_client.hpp"

namespace osm::cli {
namespace {

namespace wire = openservicemesh::certificate::v1;
using std::chrono::milliseconds;

struct RenewOptions {
  std::string directory;              // what `osm vm bootstrap` wrote
  std::string controller;             // HOST:PORT; empty: as the bootstrap says
  bool force = false;                 // also a certificate that is current; once
  std::optional<milliseconds> every;  // stays, and asks so often
  milliseconds timeout{10000};
  bool as_json = false;
};

constexpr Backoff kRetry{std::chrono::seconds(1), std::chrono::minutes(5)};

// Result of one check.
struct Outcome {
  const char* result = "current";  // or "trust bundle replaced", "names replaced", "renewed"
  WallTime not_after;
  std::string serial_number{};  // of a new certificate
};

// The proxy's user speaks to the controller: interception leaves its traffic alone and nobody
// else's, and what reads a stranger's answer is not root.
class AsProxyUser {
 public:
  explicit AsProxyUser(const ProxyFiles& files) {
    if (::geteuid() != 0 || files.owner == 0) return;
    switched_ = ::setegid(files.group) == 0 && ::seteuid(files.owner) == 0;
  }
  ~AsProxyUser() {
    if (switched_ && (::seteuid(0) != 0 || ::setegid(0) != 0)) std::abort();
  }
  AsProxyUser(const AsProxyUser&) = delete;
  AsProxyUser& operator=(const AsProxyUser&) = delete;

 private:
  bool switched_ = false;
};

std::string sha256(const std::string& text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

Result<certificate::KeyParameters> key_parameters(const RenewalResponse& response) {
  switch (response.key_type()) {
    case wire::KEY_TYPE_ECDSA_P256:
      return certificate::KeyParameters{KeyType::kEcdsaP256};
    case wire::KEY_TYPE_ED25519:
      return certificate::KeyParameters{KeyType::kEd25519};
    case wire::KEY_TYPE_RSA:
      return certificate::KeyParameters{KeyType::kRsa, static_cast<int>(response.rsa_key_bits())};
    default:
      return Error{ErrorCode::kUnavailable,
                   "the controller asks for a kind of key that this version does not know: update "
                   "this command"};
  }
}

// The controller decides on less.
constexpr std::chrono::seconds kLongestLife =
    certificate::proxy_certificate_life(std::chrono::hours(24 * 365 * 10));

struct Renewed {
  NewProxyFiles files;
  certificate::Certificate certificate;
};

// A new key, certified; `told` is what the controller wants.
Result<Renewed> obtain(const ProxyFiles& files, const RenewalResponse& told, milliseconds timeout) {
  OSM_TRY(const certificate::KeyParameters parameters, key_parameters(told));
  const certificate::Subject subject{CommonName(told.common_name()), SpiffeId(told.spiffe_id()),
                                     certificate::Usage::kProxy};
  OSM_TRY(certificate::KeyAndRequest made, certificate::make_request(subject, parameters));
  RenewalRequest request;
  request.set_trust_bundle_sha256(sha256(files.trust_bundle_pem));
  request.set_request_pem(made.request_pem);
  OSM_TRY(const RenewalResponse answer, ask_controller(files, request, timeout));
  OSM_TRY(certificate::Certificate certificate,
          certificate::check_answer({.subject = subject,
                                     .request_pem = made.request_pem,
                                     .chain_pem = answer.certificate_chain_pem(),
                                     .trust_bundle_pem = answer.trust_bundle_pem(),
                                     .validity = kLongestLife},
                                    SystemClock()));
  return Renewed{{std::move(made.key), certificate.chain_pem, answer.trust_bundle_pem()},
                 std::move(certificate)};
}

// True if Envoy must know the controller by other names. An older controller does not send any.
bool other_names(const ProxyFiles& files, const RenewalResponse& told) {
  const auto& names = told.controller_spiffe_ids();
  return !names.empty() &&
         !std::equal(names.begin(), names.end(), files.named_ids.begin(), files.named_ids.end());
}

Result<Outcome> renew_once(const RenewOptions& options) {
  OSM_TRY(const ProxyFilesLock lock, ProxyFilesLock::take(options.directory));
  OSM_TRY(ProxyFiles files, lock.read());
  if (!options.controller.empty()) files.controller = options.controller;
  if (files.not_after <= SystemClock().wall_now())
    return Error{ErrorCode::kCertificateExpired,
                 options.directory + "/sds_cert.pem ended at " + rfc3339(files.not_after, 3) +
                     ", so it proves nothing any more: run `osm vm bootstrap` for this machine "
                     "again"};
  Outcome outcome{.not_after = files.not_after};
  NewProxyFiles fresh;
  {
    const AsProxyUser user(files);
    RenewalRequest question;
    question.set_trust_bundle_sha256(sha256(files.trust_bundle_pem));
    OSM_TRY(const RenewalResponse told, ask_controller(files, question, options.timeout));
    if (told.certificate_current() && !options.force) {
      fresh.trust_bundle_pem = told.trust_bundle_pem();
      if (!fresh.trust_bundle_pem.empty())
        outcome.result = "trust bundle replaced";
      else if (other_names(files, told))
        outcome.result = "names replaced";
      else
        return outcome;
    } else {
      OSM_TRY(Renewed renewed, obtain(files, told, options.timeout));
      fresh = std::move(renewed.files);
      outcome = {"renewed", renewed.certificate.not_after, renewed.certificate.serial_number};
    }
    if (other_names(files, told))
      fresh.controller_ids = {told.controller_spiffe_ids().begin(),
                              told.controller_spiffe_ids().end()};
  }
  OSM_TRY(lock.replace(fresh));
  return outcome;
}

void tell(const RenewOptions& options, const Outcome& outcome) {
  const std::string until = rfc3339(outcome.not_after, 3);
  if (options.as_json) {
    boost::json::object line{
        {"directory", options.directory}, {"result", outcome.result}, {"not_after", until}};
    if (!outcome.serial_number.empty()) line["serial_number"] = outcome.serial_number;
    std::cout << boost::json::serialize(line) << std::endl;
    return;
  }
  std::cout << options.directory << ": " << outcome.result << "; the certificate lasts until "
            << until;
  if (!outcome.serial_number.empty()) std::cout << ", serial number " << outcome.serial_number;
  std::cout << std::endl;
}

// Result: whether it was asked to end.
bool wait_for_end(const sigset_t& awaited, std::chrono::nanoseconds pause) {
  const auto end = std::chrono::steady_clock::now() + pause;
  for (;;) {
    const auto left = std::max(std::chrono::nanoseconds{0},
                               std::chrono::nanoseconds(end - std::chrono::steady_clock::now()));
    const timespec time{static_cast<time_t>(left.count() / 1'000'000'000),
                        static_cast<long>(left.count() % 1'000'000'000)};
    if (::sigtimedwait(&awaited, nullptr, &time) > 0) return true;
    if (errno != EINTR) return false;
  }
}

int renew_forever(const RenewOptions& options) {
  const sigset_t awaited = daemon::block_signals();
  RandomRng rng;
  std::string told;  // what is as it was is not told again
  unsigned failures = 0;
  std::chrono::nanoseconds pause{};
  do {
    const Result<Outcome> outcome = renew_once(options);
    const std::string text = outcome.ok() ? outcome->result : outcome.error().message;
    if (text != std::exchange(told, text) || (outcome.ok() && text != Outcome{}.result)) {
      if (outcome.ok())
        tell(options, *outcome);
      else
        fail(outcome.error());
    }
    // Between a half and all of it: machines that were started together do not ask together.
    pause = *options.every - random_part(*options.every / 2, rng);
    failures = outcome.ok() ? 0 : failures + 1;
    if (failures > 0) pause = std::min(pause, kRetry.delay(failures, rng));
  } while (!wait_for_end(awaited, pause));
  return kDone;
}

// Asks the controller whether the machine's certificate and trust bundle are current, and replaces
// what is not. A line on standard output for what was done, on standard error for what failed.
// Result: the exit code: 0 current or renewed, or told to end; 1 failed. Blocking: once: until it
// is done; else until SIGTERM or SIGINT. Thread: the main one, before any other is started.
int renew_machine(const RenewOptions& options) {
  if (options.every) return renew_forever(options);
  const Result<Outcome> outcome = renew_once(options);
  if (!outcome.ok()) return fail(outcome.error());
  tell(options, *outcome);
  return kDone;
}

}  // namespace

void add_vm_renew(CLI::App& vm, Flags& flags) {
  struct Options {
    RenewOptions renew;
    std::string every;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app = command(
      vm, flags, "renew",
      "On the machine: replace its proxy certificate if it is past two thirds of its life or\n"
      "its root is being replaced; Envoy needs no restart",
      "osm vm renew --dir /etc/osm/web-1\n"
      "  osm vm renew --dir /etc/osm/web-1 --every 10m");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 current or renewed; 1 failed, the certificate is unchanged");
  app->remove_option(app->get_option("--state-dir"));
  app->add_option("--dir", options->renew.directory,
                  "Directory that `osm vm bootstrap --out` wrote")
      ->required();
  app->add_option("--controller", options->renew.controller,
                  "HOST:PORT of the controller's ADS server (default: from the bootstrap)");
  CLI::Option* every =
      app->add_option("--every", options->every,
                      "Keep running and check at this interval, less up to a half at random: 30s,\n"
                      "10m. After a failure earlier. SIGTERM ends it");
  app->add_flag("--force", options->renew.force, "Replace a current certificate too")
      ->excludes(every);
  app->callback([&flags, options] {
    options->renew.directory = absolute(options->renew.directory);
    options->renew.timeout = flags.timeout();
    options->renew.as_json = flags.as_json();
    if (!options->every.empty()) {
      const auto every_time = parse_duration(options->every);
      if (!every_time.ok() || *every_time < std::chrono::seconds(1)) {
        std::cerr << "osm: --every " << options->every << ": write a second or more: 30s, 10m\n";
        flags.exit_code = kUsage;
        return;
      }
      options->renew.every = *every_time;
    }
    flags.exit_code = renew_machine(options->renew);
  });
}

}  // namespace osm::cli
