#include "machine/drain.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "machine/proxy_user.hpp"
#include "machine/renewal_client.hpp"

namespace osm::inline v1::machine {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{200};
constexpr milliseconds kQuestion{10'000};  // longest wait for one answer

// True for errors that may pass by themselves.
bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotReady ||
         error.code == ErrorCode::kDeadlineExceeded;
}

Error behind(const DrainResponse& told) {
  std::string names;
  for (const std::string& name : told.behind()) names += (names.empty() ? ": " : ", ") + name;
  return {ErrorCode::kDeadlineExceeded,
          std::to_string(told.acknowledged()) + " of " + std::to_string(told.concerned()) +
              " proxies have acknowledged in time that this machine is drained; behind" + names +
              ". Repeat the command, or leave with --force"};
}

}  // namespace

Status drain_self(ProxyFiles files, const DrainOptions& options, const Clock& clock) {
  if (files.not_after <= clock.wall_now())
    return Error{ErrorCode::kCertificateExpired,
                 options.directory +
                     "/sds_cert.pem has ended, so the controller answers nothing: run `osm vm "
                     "drain` on the controller's side, and then this command with --force"};
  if (!options.controller.empty()) files.controller = options.controller;
  const bool alone = GrpcScope::is_unused();
  const auto deadline = steady_clock::now() + options.timeout;
  const auto left = [&] {
    return std::chrono::floor<milliseconds>(deadline - steady_clock::now());
  };
  std::optional<Result<DrainResponse>> last;
  for (;;) {
    const milliseconds limit = std::clamp(left(), milliseconds(1), kQuestion);
    auto told = [&] {
      const AsProxyUser user(options.as_proxy_user, files);
      const GrpcScope grpc(alone);
      return ask_to_drain(files, limit);
    }();
    if (told.ok() && told->applied()) return {};
    if (!told.ok() && !may_pass(told.error())) return told.error();
    // No answer to a question that the end cut short: the one before says more.
    const bool cut = !told.ok() && told.error().code == ErrorCode::kDeadlineExceeded &&
                     limit < std::min(options.timeout, kQuestion);
    if (!last || !cut) last.emplace(std::move(told));
    if (left() <= milliseconds(0)) return last->ok() ? behind(**last) : last->error();
    std::this_thread::sleep_for(std::min(kPoll, left()));
  }
}

Status drain(const DrainOptions& options, const Clock& clock) {
  auto files = [&]() -> Result<ProxyFiles> {
    OSM_TRY(const ProxyFilesLock lock,
            ProxyFilesLock::take(options.directory, ProxyFilesLock::Other::kAwait));
    return lock.read();
  }();
  return files.ok() ? drain_self(*std::move(files), options, clock) : Status(files.error());
}

}  // namespace osm::inline v1::machine
