// Informers against a real server: what they hold, and what holding it costs.
#include <unistd.h>

#include <fstream>
#include <future>

#include "base/strand.hpp"
#include "kubernetes/client/informer.hpp"
#include "live.hpp"
#include "osm/testing/thread_executor.hpp"

namespace osm {
namespace {

using live::config_map;
using live::kConfigMaps;
using testing::wait_until;

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct Followed {
  explicit Followed(live::Server& server, const std::string& ns)
      : informer({.api = server.api(),
                  .executor = strand,
                  .runtime = {strand, strand, server.clock, server.rng, server.log, server.metrics},
                  .server = server.cluster().server(),
                  .resource = kConfigMaps,
                  .ns = ns,
                  .on_change = [this](const auto& keys) { told += keys.size(); }}) {
    strand.post([this] { informer.start(); });
  }
  ~Followed() { strand.stop(); }

  bool refresh() {
    std::promise<bool> done;
    strand.post([&] { informer.refresh([&](bool ok) { done.set_value(ok); }); });
    return done.get_future().get();
  }

  std::atomic<std::size_t> told{0};
  testing::ThreadExecutor threads{1};
  Strand strand{threads};
  kubernetes::Informer informer;
};

TEST_SUITE("kubernetes::Informer, live") {
  TEST_CASE("200 lists of 1000 objects take no more memory than the first, and tell nothing") {
    live::Server server;
    live::make_namespace(server.api(), "many");
    const std::string value(1000, 'x');
    for (int i = 0; i < 1000; ++i) {
      const auto made =
          server.api().create(kConfigMaps, config_map("many", "map-" + std::to_string(i), value));
      REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().text()));
    }
    Followed followed(server, "many");
    REQUIRE(wait_until([&] { return followed.informer.objects().size() >= 1000; }));
    for (int i = 0; i < 20; ++i) REQUIRE(followed.refresh());
    const std::size_t told = followed.told;
    const std::size_t before = resident_bytes();
    for (int i = 0; i < 200; ++i) REQUIRE(followed.refresh());
    const std::size_t after = resident_bytes();
    MESSAGE("resident before: " << before << ", after: " << after);
    CHECK(after < before + 2 * 1024 * 1024);
    CHECK(followed.told == told);
    CHECK(followed.informer.objects().size() >= 1000);
  }
}

}  // namespace
}  // namespace osm
