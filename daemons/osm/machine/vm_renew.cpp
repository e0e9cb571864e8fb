// `osm vm renew`: a machine replaces its own certificate, with a key that it makes itself.
#include <signal.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cerrno>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/times.hpp"
#include "machine/commands.hpp"
#include "osm/machine/renew.hpp"
#include "osm/result.hpp"
#include "osm/runtime/system.hpp"
#include "process.hpp"

namespace osm::cli {
namespace {

using std::chrono::milliseconds;

struct RenewCommand {
  machine::RenewOptions renew;
  milliseconds every{};  // stays, and asks so often; 0: once
};

void tell(const Flags& flags, const machine::RenewOptions& options,
          const machine::RenewResult& outcome) {
  const std::string_view result = machine::renewal_text(outcome.renewal);
  const std::string until = rfc3339(outcome.not_after, 3);
  const std::string served = rfc3339(outcome.served_until, 3);
  if (flags.for_programs()) {
    boost::json::object line{{"directory", options.directory},
                             {"result", result},
                             {"served_until", served},
                             {"not_after", until}};
    if (!outcome.serial_number.empty()) line["serial_number"] = outcome.serial_number;
    if (flags.output == "yaml") std::cout << "---\n";
    std::cout << flags.written(line) << std::flush;
    return;
  }
  std::cout << options.directory << ": " << result << "; Envoy is served with it until " << served
            << ", and it can be renewed until " << until;
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

int renew_forever(const Flags& flags, const RenewCommand& options) {
  const sigset_t awaited = daemon::block_signals();
  RandomRng rng;
  machine::RenewalPace pace(options.every, rng);
  std::string told;  // what is as it was is not told again
  bool renewed = false;
  do {
    const auto outcome = machine::renew(options.renew, SystemClock());
    renewed = outcome.ok();
    const std::string text =
        renewed ? std::string(machine::renewal_text(outcome->renewal)) : outcome.error().message;
    const bool changed = renewed && outcome->renewal != machine::Renewal::kCurrent;
    if (text != std::exchange(told, text) || changed) {
      if (renewed)
        tell(flags, options.renew, *outcome);
      else
        fail(flags, outcome.error());
    }
  } while (!wait_for_end(awaited, pace.pause_after(renewed)));
  return kDone;
}

// Asks the controller whether the machine's certificate and trust bundle are current, and replaces
// what is not. A line on standard output for what was done, on standard error for what failed.
// Result: the exit code: 0 current or renewed, or told to end. Blocking: once: until it
// is done; else until SIGTERM or SIGINT. Thread: the main one, before any other is started.
int renew_machine(const Flags& flags, const RenewCommand& options) {
  if (options.every > milliseconds::zero()) return renew_forever(flags, options);
  const auto outcome = machine::renew(options.renew, SystemClock());
  if (!outcome.ok()) return fail(flags, outcome.error());
  tell(flags, options.renew, *outcome);
  return kDone;
}

}  // namespace

void add_vm_renew(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<RenewCommand>();
  CLI::App* app = command(
      vm, flags, "renew",
      "On the machine: replace its proxy certificate if it is past two thirds of its life or\n"
      "its root is being replaced; Envoy needs no restart",
      "osm vm renew --dir /etc/osm/web-1\n"
      "  osm vm renew --dir /etc/osm/web-1 --every 10m");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 current or renewed; any other: the certificate is unchanged");
  app->remove_option(app->get_option("--state-dir"));
  app->add_option("--dir", options->renew.directory,
                  "Directory that `osm vm bootstrap --out` wrote")
      ->required();
  app->add_option("--controller", options->renew.controller,
                  "HOST:PORT of the controller's ADS server (default: from the bootstrap)");
  CLI::Option* every =
      add_time(*app, "--every", options->every,
               "Keep running and check after 50 to 100 % of this time, at random; sooner\n"
               "after a failure. SIGTERM ends it",
               {std::chrono::seconds(1)});
  app->add_flag("--force", options->renew.force, "Replace a current certificate too")
      ->excludes(every);
  app->callback([&flags, options] {
    options->renew.directory = absolute(options->renew.directory);
    options->renew.timeout = flags.timeout;
    options->renew.as_proxy_user = true;
    flags.exit_code = renew_machine(flags, *options);
  });
}

}  // namespace osm::cli
