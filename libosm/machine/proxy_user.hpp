// The user as whom a process on a machine speaks to the controller.
#pragma once

#include <sys/types.h>

#include <mutex>

#include "machine/proxy_files.hpp"

namespace osm::inline v1::machine {

// The proxy's user speaks to the controller: interception leaves its traffic alone and nobody
// else's, and what reads a stranger's answer is not root. All threads of the process change their
// effective user and group, until the end of the scope. Without `wanted`, and in a process that is
// not root's, none does. Blocking: with `wanted`, while another thread's scope lasts.
class AsProxyUser {
 public:
  AsProxyUser(bool wanted, const ProxyFiles& files)
      : AsProxyUser(wanted, files.owner, files.group) {}
  AsProxyUser(bool wanted, uid_t user, gid_t group);
  ~AsProxyUser();
  AsProxyUser(const AsProxyUser&) = delete;
  AsProxyUser& operator=(const AsProxyUser&) = delete;

 private:
  std::unique_lock<std::mutex> alone_;
  gid_t group_ = 0;  // of the process before
  bool switched_ = false;
};

}  // namespace osm::inline v1::machine
