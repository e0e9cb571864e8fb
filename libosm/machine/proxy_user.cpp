#include "machine/proxy_user.hpp"

#include <unistd.h>

#include <cstdlib>

namespace osm::inline v1::machine {
namespace {

// The process has one effective user. Two scopes at a time would each restore the other's.
std::mutex effective_user;

}  // namespace

AsProxyUser::AsProxyUser(bool wanted, uid_t user, gid_t group) {
  if (!wanted || user == 0) return;
  alone_ = std::unique_lock(effective_user);
  group_ = ::getegid();
  if (::geteuid() == 0 && ::setegid(group) == 0) {
    switched_ = ::seteuid(user) == 0;
    if (!switched_ && ::setegid(group_) != 0) std::abort();
  }
  if (!switched_) alone_.unlock();
}

AsProxyUser::~AsProxyUser() {
  if (switched_ && (::seteuid(0) != 0 || ::setegid(group_) != 0)) std::abort();
}

}  // namespace osm::inline v1::machine
