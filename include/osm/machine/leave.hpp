// A machine leaves the mesh: clients send it no new requests, its interception and its files go.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "osm/clock.hpp"
#include "osm/detail/api.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// The machine that is drained: the one whose files are in the directory.
struct DrainOptions {
  std::string directory;                     // absolute: what bootstrap() or join() wrote
  std::string controller{};                  // HOST:PORT; empty: as the bootstrap says
  std::chrono::milliseconds timeout{60000};  // for the controller and the proxies
  bool as_proxy_user = false;                // as RenewOptions::as_proxy_user
};

// Asks the controller to take this machine out of its Services, until every proxy that is connected
// to the controller has acknowledged it. The machine stays drained when its process ends, until
// `osm vm drain --undo`.
// Failure: kDeadlineExceeded (names proxies that have not acknowledged; it continues),
// kCertificateExpired, and renew()'s for files and for the controller.
// Thread: any; with `as_proxy_user` no other call of this library at the same time, and no thread
// that needs root. Blocking: up to `timeout`, and while another process changes the files. If
// nothing else in the process used gRPC when the call began, up to a second more, until gRPC's
// threads have ended.
OSM_API Status drain(const DrainOptions& options, const Clock& clock);

// The machine, and how it leaves.
struct LeaveOptions {
  DrainOptions drain;
  std::chrono::milliseconds grace{15000};  // for requests under way, after the machine is drained
  bool force = false;                      // leave also if the machine cannot be drained
  // With `force`: called with the reason, before the machine leaves undrained. Thread: the
  // caller's.
  std::function<void(const Error&)> on_not_drained{};
};

// The steps that were done.
struct LeaveResult {
  bool drained = false;
  std::vector<std::string> units{};  // of systemd, disabled and stopped; empty: systemd runs none
  bool directory_deleted = false;    // false: it has other files, which stay
};

// Drains the machine, waits for `grace`, disables and stops the units osm-renew@NAME.timer,
// osm-intercept@NAME.service and osm-envoy@NAME.service if the directory is /etc/osm/NAME and
// systemd runs them, runs `intercept.sh --remove`, and deletes the machine's files, the key first.
// Envoy without units, the mesh's names in /etc/hosts and the VirtualMachine are the caller's. It
// starts programs (systemctl by PATH) and waits for them; their output goes to this process's
// standard error. The process must not reap children of others, nor ignore SIGCHLD.
// Failure: kPermissionDenied (not root, or somebody else may have written intercept.sh; nothing is
// done), kConflict (another process has the files), kStorage (a file, a program; repeat the call);
// without `force` drain()'s.
// Thread: as drain(). Blocking: as drain(), but not for another process; `grace`, and until the
// programs have ended.
OSM_API Result<LeaveResult> leave(const LeaveOptions& options, const Clock& clock);

}  // namespace osm::inline v1::machine
