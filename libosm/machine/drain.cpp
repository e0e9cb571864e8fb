#include "machine/drain.hpp"

#include <algorithm>
#include <chrono>
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
  const auto deadline = steady_clock::now() + options.timeout;
  for (;;) {
    const auto told = [&] {
      const AsProxyUser user(options.as_proxy_user, files);
      return ask_to_drain(files, std::min(options.timeout, kQuestion));
    }();
    if (told.ok() && told->applied()) return {};
    if (!told.ok() && !may_pass(told.error())) return told.error();
    if (steady_clock::now() >= deadline) return told.ok() ? behind(*told) : told.error();
    std::this_thread::sleep_for(kPoll);
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
