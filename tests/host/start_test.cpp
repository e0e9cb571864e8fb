// A replica's name is its own, and its log follows the level of MeshConfig.
#include <doctest/doctest.h>

#include "osm/host/start.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/memory_mesh_spec.hpp"

using namespace osm;

TEST_SUITE("host::replica_name") {
  TEST_CASE("a name begins with the host's, and each is another one") {
    RandomRng rng(1);
    const std::string name = host::replica_name(rng);
    CHECK(name.find(host::host_name() + '-') == 0);
    CHECK(name.size() == host::host_name().size() + 17);
    CHECK(host::replica_name(rng) != name);
  }
}

TEST_SUITE("host::follow_log_level") {
  TEST_CASE("the level is MeshConfig's, else the program's, until the handle's end") {
    osm::testing::MemoryMeshSpec spec;
    const SystemClock clock;
    net::JsonLog log(2, LogLevel::kError, clock);
    MeshConfig config;
    config.log_level = LogLevel::kDebug;
    auto handle = host::follow_log_level(spec, log, LogLevel::kWarning);
    CHECK(log.enabled(LogLevel::kWarning));
    CHECK_FALSE(log.enabled(LogLevel::kInfo));
    spec.set_mesh_config(config);
    CHECK(log.enabled(LogLevel::kDebug));
    spec.set_mesh_config({});
    CHECK_FALSE(log.enabled(LogLevel::kInfo));
    handle.reset();
    spec.set_mesh_config(config);
    CHECK_FALSE(log.enabled(LogLevel::kInfo));
  }
}
