// The files of one machine: read, and replaced under a lock. Each is there whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "osm/certificate/manager.hpp"
#include "osm/clock.hpp"
#include "osm/machine/files.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// Of one of a machine's files.
inline constexpr std::size_t kMaxFileBytes = 1024 * 1024;

// True for the name of a file within a directory, which is not hidden.
bool is_plain_name(std::string_view name);

// The files with which a machine speaks to the controller.
struct ProxyFiles {
  std::string controller;                   // HOST:PORT, as bootstrap.yaml says
  std::vector<std::string> controller_ids;  // the SPIFFE ids that Envoy takes for it
  std::vector<std::string> named_ids;       // of them, those that can be replaced, in their order
  std::string chain_pem;
  certificate::PrivateKey key;
  std::string trust_bundle_pem;
  WallTime not_before;  // of the certificate
  WallTime not_after;
  uid_t owner = 0;  // of the key: who speaks to the controller
  gid_t group = 0;
};

// Replacements for them. Empty members stay as they are.
struct NewProxyFiles {
  certificate::PrivateKey key;
  std::string chain_pem;
  std::string trust_bundle_pem;
  std::vector<std::string> controller_ids{};
};

// The right to change a machine's certificate: one process has it at a time.
class ProxyFilesLock {
 public:
  // Behaviour if another process has the lock.
  enum class Other { kRefuse, kAwait };

  // Takes the lock, and completes a replacement that a killed process had begun. Failure: kStorage;
  // with kRefuse kConflict (another process has the lock). Blocking: with kAwait, until that one
  // ends.
  static Result<ProxyFilesLock> take(const std::string& directory, Other other = Other::kRefuse);

  // Failure: kStorage, kInvalidSyntax naming the file and the remedy.
  Result<ProxyFiles> read() const;

  // With the owners and modes of those that are there. Everything is written before the first is
  // renamed, so that a key is beside another's certificate for no longer than two renames take; and
  // whoever is killed between them, the next take() does the second. Failure: kStorage.
  Status replace(const NewProxyFiles& files) const;

  // Tries to make a file of this user and group, as write_files() does. Failure: kStorage naming
  // the key's file, with the remedy; none is left behind.
  Status try_owner(std::uint32_t owner) const;

  // Deletes the files that `osm vm bootstrap` or `osm vm join` wrote, the key first, what killed
  // processes left of them, and then the directory if nothing else is in it. Result: true if the
  // directory is gone. Failure: kStorage naming the file; the others before it are deleted.
  Result<bool> remove_all() const;

 private:
  ProxyFilesLock(std::string directory, Descriptor fd)
      : directory_(std::move(directory)), fd_(std::move(fd)) {}

  Status stage(const std::string& name, std::string_view content) const;
  Status commit(const std::string& name) const;
  bool staged(const std::string& name) const;
  void discard() const;

  std::string directory_;
  Descriptor fd_;  // the kernel unlocks it when it is closed
};

}  // namespace osm::inline v1::machine
