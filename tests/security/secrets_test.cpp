// No byte that one identity is sent, and nothing that is logged or shown, holds a key of another
// (docs/security.md, threats 5 and 22).
#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ads/hub_rig.hpp"
#include "ads/wire.hpp"
#include "lib/run.hpp"
#include "security/random_mesh.hpp"
#include "translate/config_dump.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace osm::security_test;

namespace {

// The base64 lines of a key: what would be recognized of it anywhere.
std::vector<std::string> lines_of(const std::string& pem) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < pem.size();) {
    const std::size_t end = std::min(pem.find('\n', at), pem.size());
    if (pem[at] != '-' && end - at >= 40) lines.push_back(pem.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

struct World {
  HubRig rig;
  RandomMesh mesh;
  std::map<ServiceIdentity, std::set<std::string>> keys;  // every one that ever was
  struct Client {
    ServiceIdentity identity;
    std::unique_ptr<RigProxy> proxy;
    std::size_t scanned = 0;
  };
  std::vector<Client> clients;
  int scanned = 0, secrets = 0;

  explicit World(std::uint64_t seed) : mesh(seed) { publish(); }

  void publish() {
    auto next = std::make_shared<model::MeshSnapshot>(*mesh.snapshot());
    model::Changes changes;
    changes.everything = true;
    rig.hub.on_snapshot(next, changes);
    rig.executor.run_until_idle();
  }

  void remember_keys() {
    for (const Client& client : clients)
      if (const auto held = rig.secrets.certificate_for(client.identity))
        for (const std::string& line : lines_of(held->private_key.pem()))
          keys[client.identity].insert(line);
  }

  // Requests of a thief, beside those of a proxy.
  void ask(RigProxy& proxy) {
    std::vector<std::string> names = kSecretNames;
    for (const Client& other : clients)
      for (const std::string& name :
           {other.identity.str(), "service-cert:" + other.identity.str(),
            spiffe_id(kDomain, other.identity).str(), "../" + other.identity.str()})
        names.push_back(name);
    std::vector<std::string> assignments;
    for (const std::string& ns : RandomMesh::namespaces())
      for (const char* name : {"x0", "x1", "x2"})
        for (const char* port : {"|8080", "|8081"}) assignments.push_back(ns + '/' + name + port);
    proxy.ask(XdsType::kCluster);
    proxy.ask(XdsType::kSecret, names);
    proxy.ask(XdsType::kEndpoint, assignments);
    proxy.ask(XdsType::kListener);
    std::vector<std::string> routes{"rds-inbound.8080", "rds-inbound.8081"};
    for (const std::string& ns : RandomMesh::namespaces())
      for (const char* name : {"x0", "x1", "x2"})
        routes.push_back("rds-outbound.80." + service_fqdn({ns, name}));
    proxy.ask(XdsType::kRoute, routes);
  }

  void connect() {
    const auto snapshot = mesh.snapshot();
    if (snapshot->workloads.size() == 0) return;
    auto at = snapshot->workloads.begin();
    for (int skip = mesh.pick(static_cast<int>(snapshot->workloads.size())); skip > 0; --skip) ++at;
    const Workload& workload = (*at)->workload;
    const ServiceIdentity identity = identity_of(workload.account);
    clients.push_back({identity, std::make_unique<RigProxy>(rig, workload.proxy_id, identity)});
    if (clients.back().proxy->open()) ask(*clients.back().proxy);
  }

  // Everything that arrived since the last look, against every key of everybody else.
  void scan() {
    remember_keys();
    for (Client& client : clients) {
      const auto& writes = client.proxy->stream().writes;
      for (; client.scanned < writes.size(); ++client.scanned) {
        const std::string bytes = ads::serialize(writes[client.scanned]);
        ++scanned;
        secrets += bytes.find("PRIVATE KEY") != bytes.npos;
        if (writes[client.scanned].type != XdsType::kSecret)
          CHECK(bytes.find("PRIVATE KEY") == bytes.npos);
        check_no_foreign_key(client.identity, bytes);
      }
      if (client.proxy->stream().closed)
        check_no_foreign_key({}, client.proxy->stream().closed->text);
    }
  }

  void check_no_foreign_key(const ServiceIdentity& own, const std::string& bytes) {
    for (const auto& [identity, lines] : keys) {
      if (identity == own) continue;
      for (const std::string& line : lines) {
        CAPTURE(own.str());
        CAPTURE(identity.str());
        REQUIRE(bytes.find(line) == bytes.npos);
      }
    }
  }

  // As AdsServer::config_dump() shows it: no key at all, not even the proxy's own.
  void scan_dumps() {
    for (const Client& client : clients) {
      for (const auto& view : rig.hub.find(client.identity.name)) {
        std::vector<translate::DumpedResource> dumped;
        for (const XdsType type : kXdsTypes)
          if (const auto& sent = view.sent[ads::index_of(type)])
            for (const auto& r : sent->resources())
              dumped.push_back({type, r->name, sent->version(), r->any, {}, false, ""});
        check_no_foreign_key({}, translate::config_dump_json(dumped));
      }
    }
  }
};

}  // namespace

TEST_SUITE("security.secrets") {
  TEST_CASE("random meshes, rotations and reconnects never show another identity's key") {
    World world(osm::testing::seed());
    for (int step = 0; step < 400; ++step) {
      switch (world.mesh.pick(6)) {
        case 0:
          world.connect();
          break;
        case 1:
          if (!world.clients.empty()) {
            auto& gone = world.clients[static_cast<std::size_t>(
                world.mesh.pick(static_cast<int>(world.clients.size())))];
            if (gone.proxy->open()) gone.proxy->hang_up();
          }
          break;
        case 2:
          if (!world.clients.empty())
            world.rig.secrets.rotate(world
                                         .clients[static_cast<std::size_t>(world.mesh.pick(
                                             static_cast<int>(world.clients.size())))]
                                         .identity);
          world.rig.executor.run_until_idle();
          break;
        default:
          world.mesh.change(RandomMesh::namespace_name(world.mesh.pick(RandomMesh::kNamespaces)));
          world.publish();
      }
      for (auto& client : world.clients)
        if (client.proxy->open()) client.proxy->settle();
      CAPTURE(step);
      world.scan();
    }
    world.scan_dumps();
    world.check_no_foreign_key({}, world.rig.log.all_text());
    CHECK(world.rig.log.all_text().find("PRIVATE KEY") == std::string::npos);
    CHECK(world.keys.size() > 3);
    CHECK(world.secrets > 20);
    CHECK(world.scanned > 100);
  }

  TEST_CASE("a key is found where there is one: the scan can fail") {
    World world(osm::testing::seed());
    // A random mesh may begin with a single account, or with no workload at all.
    const auto accounts = [&] {
      std::set<ServiceIdentity> out;
      for (const auto& entry : world.mesh.snapshot()->workloads)
        out.insert(identity_of(entry->workload.account));
      return out.size();
    };
    for (int round = 0; accounts() < 2; ++round) {
      REQUIRE(round < 10000);
      world.mesh.change(RandomMesh::namespace_name(world.mesh.pick(RandomMesh::kNamespaces)));
    }
    world.publish();
    while (world.clients.empty() || world.clients.back().identity == world.clients[0].identity)
      world.connect();
    for (auto& client : world.clients)
      if (client.proxy->open()) client.proxy->settle();
    world.remember_keys();
    const auto& own = world.clients[0].identity;
    REQUIRE(world.keys.contains(own));
    const std::string leaked = *world.keys.at(own).begin();
    bool found = false;
    for (const auto& client : world.clients)
      if (client.identity == own)  // one proxy may have connected several times
        for (const auto& response : client.proxy->stream().writes)
          found = found || ads::serialize(response).find(leaked) != std::string::npos;
    CHECK(found);
  }
}
