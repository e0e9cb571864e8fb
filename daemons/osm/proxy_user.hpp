// The user as whom the commands on a machine speak to the controller.
#pragma once

#include <unistd.h>

#include <cstdlib>

#include "machine_files.hpp"

namespace osm::cli {

// The proxy's user speaks to the controller: interception leaves its traffic alone and nobody
// else's, and what reads a stranger's answer is not root.
class AsProxyUser {
 public:
  explicit AsProxyUser(const ProxyFiles& files) : AsProxyUser(files.owner, files.group) {}
  AsProxyUser(uid_t user, gid_t group) {
    if (::geteuid() != 0 || user == 0) return;
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

}  // namespace osm::cli
