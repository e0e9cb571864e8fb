// The user as whom a process on a machine speaks to the controller.
#pragma once

#include <unistd.h>

#include <cstdlib>

#include "machine/proxy_files.hpp"

namespace osm::inline v1::machine {

// The proxy's user speaks to the controller: interception leaves its traffic alone and nobody
// else's, and what reads a stranger's answer is not root. All threads of the process change their
// effective user, until the end of the scope. Without `wanted`, and in a process that is not
// root's, none does.
class AsProxyUser {
 public:
  AsProxyUser(bool wanted, const ProxyFiles& files)
      : AsProxyUser(wanted, files.owner, files.group) {}
  AsProxyUser(bool wanted, uid_t user, gid_t group) {
    if (!wanted || ::geteuid() != 0 || user == 0) return;
    switched_ = ::setegid(group) == 0 && ::seteuid(user) == 0;
  }
  ~AsProxyUser() {
    if (switched_ && (::seteuid(0) != 0 || ::setegid(0) != 0)) std::abort();
  }
  AsProxyUser(const AsProxyUser&) = delete;
  AsProxyUser& operator=(const AsProxyUser&) = delete;

 private:
  bool switched_ = false;
};

}  // namespace osm::inline v1::machine
