#include "osm/host/start.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

namespace osm::inline v1::host {

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return host.data();
}

std::string replica_name(Rng& rng) { return fmt::format("{}-{:016x}", host_name(), rng.next()); }

Subscription follow_log_level(MeshSpec& spec, net::JsonLog& log, LogLevel otherwise) {
  const auto follow = [&spec, &log, otherwise] {
    log.set_least(spec.get_mesh_config().log_level.value_or(otherwise));
  };
  auto handle = spec.subscribe([follow](const auto&) { follow(); });
  follow();
  return handle;
}

}  // namespace osm::inline v1::host
