// `osm vm renew`: a machine replaces its own certificate, with a key that it makes itself.
#include <openssl/sha.h>
#include <signal.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>

#include "base/backoff.hpp"
#include "base/times.hpp"
#include "command.hpp"
#include "machine_files.hpp"
#include "osm/certificate/request.hpp"
#include "osm/result.hpp"
#include "osm/runtime/system.hpp"
#include "process.hpp"
#include "proxy_user.hpp"
#include "renewal_client.hpp"
#include "workload_files.hpp"

namespace osm::cli {
namespace {

using std::chrono::milliseconds;

struct RenewOptions {
  std::string directory;   // what `osm vm bootstrap` wrote
  std::string controller;  // HOST:PORT; empty: as the bootstrap says
  bool force = false;      // also a certificate that is current; once
  milliseconds every{};    // stays, and asks so often; 0: once
  milliseconds timeout{10000};
  Flags output;  // how each check is told
};

constexpr Backoff kRetry{std::chrono::seconds(1), std::chrono::minutes(5)};

// Result of one check.
struct Outcome {
  // Or "trust bundle replaced", "names replaced", "workload certificate replaced", "renewed".
  const char* result = "current";
  WallTime not_after;
  WallTime
      served_until;  // at the latest not_after, which an older controller does not bring forward
  std::string serial_number{};  // of a new certificate
};

std::string sha256(const std::string& text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
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
  WallTime not_before = files.not_before;
  Outcome outcome{.not_after = files.not_after, .served_until = files.not_after};
  NewProxyFiles fresh;
  // The proxy's user may be unable to reach the directory.
  const std::optional<WorkloadFiles> held = read_workload_files(options.directory);
  WorkloadFiles workload;
  {
    const AsProxyUser user(files);
    RenewalRequest question;
    question.set_trust_bundle_sha256(sha256(files.trust_bundle_pem));
    OSM_TRY(const RenewalResponse told, ask_controller(files, question, options.timeout));
    const bool renews = options.force || !told.certificate_current();
    if (!renews) {
      fresh.trust_bundle_pem = told.trust_bundle_pem();
      if (!fresh.trust_bundle_pem.empty())
        outcome.result = "trust bundle replaced";
      else if (other_names(files, told))
        outcome.result = "names replaced";
    } else {
      OSM_TRY(Renewed renewed, obtain(files, told, options.timeout));
      fresh = std::move(renewed.files);
      not_before = renewed.certificate.not_before;
      outcome = {"renewed", renewed.certificate.not_after, renewed.certificate.not_after,
                 renewed.certificate.serial_number};
    }
    if (const std::chrono::seconds validity(told.proxy_validity_seconds()); validity.count() > 0)
      outcome.served_until =
          certificate::proxy_certificate_times(not_before, outcome.not_after, validity)
              .served_until;
    if (other_names(files, told))
      fresh.controller_ids = {told.controller_spiffe_ids().begin(),
                              told.controller_spiffe_ids().end()};
    if (held) {
      OSM_TRY(workload, obtain_workload_files(*held, files, told, renews, options.timeout));
    }
  }
  if (std::string_view(outcome.result) != Outcome{}.result) OSM_TRY(lock.replace(fresh));
  OSM_TRY(const bool wrote, write_workload_files(options.directory, files, workload));
  if (wrote && std::string_view(outcome.result) == Outcome{}.result)
    outcome.result = "workload certificate replaced";
  return outcome;
}

void tell(const RenewOptions& options, const Outcome& outcome) {
  const std::string until = rfc3339(outcome.not_after, 3);
  const std::string served = rfc3339(outcome.served_until, 3);
  if (options.output.for_programs()) {
    boost::json::object line{{"directory", options.directory},
                             {"result", outcome.result},
                             {"served_until", served},
                             {"not_after", until}};
    if (!outcome.serial_number.empty()) line["serial_number"] = outcome.serial_number;
    if (options.output.output == "yaml") std::cout << "---\n";
    std::cout << options.output.written(line) << std::flush;
    return;
  }
  std::cout << options.directory << ": " << outcome.result << "; Envoy is served with it until "
            << served << ", and it can be renewed until " << until;
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

int renew_forever(const Flags& flags, const RenewOptions& options) {
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
        fail(flags, outcome.error());
    }
    // Between a half and all of it: machines that were started together do not ask together.
    pause = options.every - random_part(options.every / 2, rng);
    failures = outcome.ok() ? 0 : failures + 1;
    if (failures > 0) pause = std::min(pause, kRetry.delay(failures, rng));
  } while (!wait_for_end(awaited, pause));
  return kDone;
}

// Asks the controller whether the machine's certificate and trust bundle are current, and replaces
// what is not. A line on standard output for what was done, on standard error for what failed.
// Result: the exit code: 0 current or renewed, or told to end. Blocking: once: until it
// is done; else until SIGTERM or SIGINT. Thread: the main one, before any other is started.
int renew_machine(const Flags& flags, const RenewOptions& options) {
  if (options.every > milliseconds::zero()) return renew_forever(flags, options);
  const Result<Outcome> outcome = renew_once(options);
  if (!outcome.ok()) return fail(flags, outcome.error());
  tell(options, *outcome);
  return kDone;
}

}  // namespace

void add_vm_renew(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<RenewOptions>();
  CLI::App* app = command(
      vm, flags, "renew",
      "On the machine: replace its proxy certificate if it is past two thirds of its life or\n"
      "its root is being replaced; Envoy needs no restart",
      "osm vm renew --dir /etc/osm/web-1\n"
      "  osm vm renew --dir /etc/osm/web-1 --every 10m");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 current or renewed; any other: the certificate is unchanged");
  app->remove_option(app->get_option("--state-dir"));
  app->add_option("--dir", options->directory, "Directory that `osm vm bootstrap --out` wrote")
      ->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server (default: from the bootstrap)");
  CLI::Option* every =
      add_time(*app, "--every", options->every,
               "Keep running and check after 50 to 100 % of this time, at random; sooner\n"
               "after a failure. SIGTERM ends it",
               {std::chrono::seconds(1)});
  app->add_flag("--force", options->force, "Replace a current certificate too")->excludes(every);
  app->callback([&flags, options] {
    options->directory = absolute(options->directory);
    options->timeout = flags.timeout;
    options->output = flags;
    flags.exit_code = renew_machine(flags, *options);
  });
}

}  // namespace osm::cli
