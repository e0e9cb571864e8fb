// The `osm` command shows proxies, problems and certificates of an embedded mesh.
#ifdef OSM_EMULATOR  // set if the daemons are built; empty, or the program that runs them
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <cstdio>
#include <string>

#include "embedding/host.hpp"
#include "lib/places.hpp"
#include "osm/certificate/request.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/threads.hpp"

using namespace osm;
using namespace osm::embedding_test;
using namespace std::chrono_literals;

namespace {

struct Ran {
  int status = 0;
  std::string output;
};

Ran osm_command(const Host& host, const std::string& arguments) {
  const std::string line = OSM_EMULATOR " " + osm::testing::beside_this_program("osm").string() +
                           ' ' + arguments + " --state-dir " + host.directory.str() + " 2>&1";
  std::FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ran ran;
  char block[4096];
  while (const std::size_t got = std::fread(block, 1, sizeof block, pipe))
    ran.output.append(block, got);
  ran.status = ::pclose(pipe);
  return ran;
}

}  // namespace

TEST_SUITE("embedding") {
  TEST_CASE("the osm command shows proxies, problems and certificates of an embedded mesh") {
    osm::testing::ThreadExecutor executor(2);
    Host host(executor);
    REQUIRE(host.serves());
    const Workload workload{{"shop", "vm"},
                            ProxyId("6ba7b810-9dad-41d1-80b4-00c04fd430c8"),
                            {"shop", "app"},
                            "10.1.0.1",
                            {},
                            {}};
    const auto made = certificate::make_request(host.mesh->proxy_subject(workload));
    REQUIRE(made.ok());
    REQUIRE(host.mesh->issue_proxy_certificate(workload, made->request_pem, 1h).ok());

    net::Threads io(1);
    net::Threads blocking(1);
    const Runtime runtime{executor, blocking.executor(), host.clock, host.rng,
                          host.log, host.metrics};
    const auto server =
        net::HttpServer::start({.listen = {.unix_path = host.directory.file("admin.sock")}},
                               io.executor(), blocking.executor(),
                               net::make_admin_api({.runtime = runtime,
                                                    .control_plane = *host.mesh,
                                                    .spec = host.spec,
                                                    .certificates = *host.certificates,
                                                    .version = "7.8.9",
                                                    .commit = "abc"}),
                               host.log);
    REQUIRE_MESSAGE(server.ok(), server.error().text());

    const Ran proxies = osm_command(host, "proxy list -o json");
    REQUIRE_MESSAGE(proxies.status == 0, proxies.output);
    const auto answer = boost::json::parse(proxies.output);
    CHECK(answer.at("proxies").as_array().empty());
    REQUIRE(answer.at("expected").as_array().size() == 1);
    CHECK(std::string(answer.at("expected").at(0).at("uuid").as_string()) ==
          workload.proxy_id.str());

    const Ran table = osm_command(host, "proxy list");
    CHECK(table.status == 0);
    CHECK(table.output.find("No proxy is connected.") != std::string::npos);
    const Ran version = osm_command(host, "version");
    CHECK(version.status == 0);
    CHECK(version.output.find("7.8.9 (abc)") != std::string::npos);
    for (const char* command : {"problems -o json", "certificate list -o json"}) {
      const Ran ran = osm_command(host, command);
      CHECK_MESSAGE(ran.status == 0, command, ran.output);
    }
  }
}
#endif
