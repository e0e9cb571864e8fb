#include "replica.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

namespace osm::daemon {

std::string replica_name(Rng& rng) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}-{:016x}", host.data(), rng.next());
}

}  // namespace osm::daemon
