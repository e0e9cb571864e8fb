// Equal cache keys mean equal bytes, and invisible changes change no key.
#include <functional>
#include <map>
#include <random>
#include <set>

#include "lib/run.hpp"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

using Random = std::mt19937_64;

template <class List>
const auto& pick(Random& random, const List& list) {
  return list[random() % list.size()];
}

const std::vector<ServiceIdentity> kIdentities{{"a", "x"}, {"a", "y"}, {"b", "x"}, {"b", "z"}};
const std::vector<ServiceName> kServices{{"a", "s"}, {"a", "t"}, {"b", "s"}, {"b", "u"}};
const std::vector<std::string> kAddresses{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"};
const std::vector<std::uint16_t> kPorts{80, 81, 8080, 0};
const std::vector<Protocol> kProtocols{Protocol::kHttp, Protocol::kGrpc, Protocol::kTcp,
                                       Protocol::kTcpServerFirst, Protocol::kH2c};

template <class T>
std::vector<T> some(Random& random, const std::vector<T>& all) {
  std::vector<T> out;
  for (const T& one : all)
    if (random() % 2) out.push_back(one);
  return out;
}

MeshService random_port(Random& random, const ServiceName& service) {
  return port(service, pick(random, kPorts), pick(random, kPorts), pick(random, kProtocols),
              random() % 2 ? "p" : "q");
}

model::ServiceEntry random_entry(Random& random, const ServiceName& name) {
  model::ServiceEntry entry;
  entry.name = name;
  entry.headless = random() % 3 == 0;
  if (entry.headless)
    entry.addresses = some(random, kAddresses);
  else
    entry.cluster_ip = pick(random, kAddresses);
  for (int i = random() % 3; i >= 0; --i) entry.ports.push_back(random_port(random, name));
  std::sort(entry.ports.begin(), entry.ports.end());
  entry.identities = some(random, kIdentities);
  if (random() % 3 == 0) {
    entry.split.emplace();
    for (const ServiceName& backend : some(random, kServices))
      entry.split->push_back({backend, static_cast<int>(random() % 3)});
  }
  if (random() % 3 == 0) entry.apexes = some(random, kServices);
  return entry;
}

model::ServiceEndpoints random_endpoints(Random& random, const ServiceName& name) {
  model::ServiceEndpoints out{name, {}};
  for (const std::string& address : some(random, kAddresses)) {
    auto one = endpoint_at(address, pick(random, kPorts), pick(random, kIdentities),
                           random() % 2 ? "p" : "q");
    if (random() % 3 == 0) one.zone = random() % 2 ? "z1" : "z2";
    if (random() % 3 == 0) one.weight = random() % 3;
    out.endpoints.push_back(std::move(one));
  }
  return out;
}

RoutePolicy random_match(Random& random) {
  static const std::vector<std::string> kPaths{".*", "/a", "/a/.*", "/(a|b)"};
  static const std::vector<std::string> kMethods{"GET", "POST"};
  RoutePolicy match{random() % 2 ? "m" : "n", pick(random, kPaths), some(random, kMethods), {}};
  if (random() % 2) match.headers["host"] = pick(random, kPaths);
  return match;
}

void put_random_policy(Random& random, Mesh& mesh, const ServiceIdentity& identity) {
  std::vector<model::Upstream> upstreams;
  for (const ServiceName& service : some(random, kServices))
    upstreams.push_back({service, random() % 4 != 0, random() % 2 == 0, some(random, kIdentities)});
  std::vector<InboundTrafficPolicy> inbound;
  for (const char* target : {"t1", "t2"}) {
    InboundTrafficPolicy policy{{identity.ns, target}, some(random, kIdentities), {}, false, {}};
    for (int i = random() % 3; i > 0; --i) policy.http_routes.push_back(random_match(random));
    policy.tcp = random() % 2;
    for (const auto number : some(random, kPorts)) policy.tcp_ports.push_back(Port{number});
    inbound.push_back(std::move(policy));
  }
  mesh.put(identity, std::move(upstreams), std::move(inbound));
}

void put_random_egress(Random& random, Mesh& mesh, const ServiceIdentity& identity) {
  static const std::vector<std::string> kHosts{"a.b", "*.b", "c.b"};
  static const std::vector<Ipv4Network> kNetworks{{0x0A000000, 8}, {0x0A010000, 16}};
  static const std::vector<EgressProtocol> kOutside{EgressProtocol::kHttp, EgressProtocol::kHttps,
                                                    EgressProtocol::kTcp};
  model::ClientPolicy client{identity, {}, {}};
  for (int i = random() % 3; i > 0; --i) {
    model::EgressGrant& grant = client.egress.emplace_back();
    for (const auto number : some(random, kPorts))
      grant.ports.push_back({Port{number}, pick(random, kOutside)});
    if (random() % 3) grant.hosts.emplace();
    if (grant.hosts)
      for (const std::string& host : some(random, kHosts)) grant.hosts->push_back({host, {}});
    if (random() % 3 == 0) grant.networks = some(random, kNetworks);
    if (random() % 3 == 0) grant.routes = {random_match(random)};
    if (random() % 3 == 0) grant.setting = random() % 2 ? "a/x" : "a/y";
    if (!grant.setting.empty())
      grant.connections.max_connections = static_cast<std::uint32_t>(random() % 3);
  }
  mesh.snapshot.clients =
      mesh.snapshot.clients.with(std::make_shared<const model::ClientPolicy>(std::move(client)));
}

Mesh random_mesh(Random& random) {
  Mesh mesh;
  for (const ServiceName& service : kServices) {
    mesh.put(random_entry(random, service));
    mesh.put(random_endpoints(random, service));
  }
  for (const ServiceIdentity& identity : kIdentities) put_random_policy(random, mesh, identity);
  return mesh;
}

// One change somewhere, small or not, seen by some proxy or by none.
void mutate(Random& random, Mesh& mesh) {
  const ServiceName& service = pick(random, kServices);
  const auto change_entry = [&](const std::function<void(model::ServiceEntry&)>& change) {
    auto entry = *mesh.snapshot.services.find(service);
    change(entry);
    mesh.put(std::move(entry));
  };
  switch (random() % 21) {
    case 0:
      mesh.put(random_entry(random, service));
      break;
    case 1:
      mesh.put(random_endpoints(random, service));
      break;
    case 2:
      put_random_policy(random, mesh, pick(random, kIdentities));
      break;
    case 3:
      mesh.snapshot.config.proxy.egress ^= true;
      break;
    case 4:
      mesh.domains(some(random, std::vector<std::string>{"cluster.local", "new.example"}));
      if (random() % 2) mesh.snapshot.allowed_domains.emplace_back("old.example");
      break;
    case 5:
      mesh.snapshot.config.proxy.permissive ? void(mesh.snapshot.config.proxy.permissive = false)
                                            : void(mesh.permissive());
      break;
    case 18:
      change_entry([&](auto& entry) {
        const auto amount = static_cast<std::uint32_t>(random() % 3);
        const HttpLocalRateLimit limit{{amount, std::chrono::seconds(1), 0}, 429, {}};
        entry.limits = UpstreamLimits{};
        if (random() % 2) entry.limits->connections.max_connections = amount;
        if (random() % 2) entry.limits->tcp = limit.rate;
        if (random() % 2) entry.limits->http = limit;
        if (random() % 2) entry.limits->paths = {{"/a", limit}};
        const RateLimitServer server{pick(random, kAddresses), Port{8081}, "a"};
        const RateLimitEntry user{RateLimitEntry::Kind::kRequestHeader, "u", "", "user", {}};
        if (random() % 2) entry.limits->global_http = HttpGlobalRateLimit{server};
        if (random() % 2) entry.limits->global_tcp = TcpGlobalRateLimit{server, {{{"a", "b"}}}};
        if (random() % 2) entry.limits->descriptors = {{user}};
        if (random() % 2) entry.limits->paths.push_back({"/b", {}, {{user}}});
        if (random() % 2) entry.limits->idle.stream = std::chrono::seconds(amount);
        if (random() % 2) entry.limits->idle.connection = std::chrono::seconds(amount);
        if (random() % 2) entry.limits->connections.outliers = OutlierDetection{amount + 1};
      });
      break;
    case 19:
      put_random_egress(random, mesh, pick(random, kIdentities));
      break;
    case 14:
      mesh.snapshot.config.proxy.tls.minimum =
          random() % 2 ? TlsVersion::kTls12 : TlsVersion::kTls13;
      break;
    case 15:
      mesh.snapshot.config.proxy.tracing = {random() % 3 != 0, pick(random, kAddresses), Port{80},
                                            random() % 2 ? "/a" : "/b"};
      break;
    case 16:
      mesh.snapshot.config.proxy.external_authorization = {.enabled = random() % 3 != 0,
                                                           .address = pick(random, kAddresses),
                                                           .port = Port{pick(random, kPorts)},
                                                           .failure_mode_allow = random() % 2 == 0};
      break;
    case 17:
      mesh.snapshot.config.proxy.active_health_checks ^= true;
      break;
    case 20:
      mesh.snapshot.config.proxy.request_metrics ^= true;
      break;
    case 6:
      ++mesh.snapshot.generation;
      break;
    case 7:
      change_entry([&](auto& e) { e.ports[0].protocol = pick(random, kProtocols); });
      break;
    case 8:
      change_entry([&](auto& e) { e.ports[0].target_port = Port{pick(random, kPorts)}; });
      break;
    case 9:
      change_entry([&](auto& e) { e.ports[0].port_name = random() % 2 ? "p" : "q"; });
      break;
    case 10:
      change_entry([&](auto& e) { e.identities = some(random, kIdentities); });
      break;
    case 11:
      change_entry([&](auto& e) { e.cluster_ip = pick(random, kAddresses); });
      break;
    case 12:
      change_entry([&](auto& e) { e.apexes = some(random, kServices); });
      break;
    case 13:
      change_entry([&](auto& e) { e.split.reset(); });
      break;
  }
}

std::vector<translate::ProxyClass> classes(Random& random) {
  std::vector<translate::ProxyClass> out;
  for (const ServiceIdentity& identity : kIdentities) {
    translate::ProxyClass one{identity, {}};
    for (int i = random() % 3; i > 0; --i)
      one.own_ports.push_back({random_port(random, pick(random, kServices))});
    std::sort(one.own_ports.begin(), one.own_ports.end());
    out.push_back(std::move(one));
  }
  return out;
}

struct Seen {
  Digest key;
  std::string any;
  std::vector<translate::EncodedResource::Reference> references;
};
using AllSeen = std::map<std::pair<XdsType, std::string>, Seen>;

AllSeen everything(const Mesh& mesh, const translate::ProxyClass& of) {
  AllSeen out;
  for (const XdsType type : kXdsTypes) {
    std::string last;
    for (const auto& input : mesh.inputs(of, type)) {
      CHECK_MESSAGE(last < input->name(), "not ordered or not unique: " << input->name());
      last = input->name();
      auto resource = input->encode();
      CHECK(resource.name == input->name());
      CHECK(resource.hash == digest_of(resource.any));
      CHECK(std::is_sorted(resource.references.begin(), resource.references.end()));
      out[{type, input->name()}] = {input->key(), resource.any, resource.references};
    }
  }
  return out;
}

}  // namespace

TEST_SUITE("translate::Input") {
  TEST_CASE("one key never stands for two encodings, whatever changes in the mesh") {
    Random random = osm::testing::seeded();
    int changed = 0, unchanged = 0;
    std::map<Digest, std::string> bytes_of;  // over all meshes: a cache for ever
    for (int round = 0; round < osm::testing::steps(60, 600); ++round) {
      Mesh mesh = random_mesh(random);
      const auto of = classes(random);
      std::vector<AllSeen> before;
      for (const auto& one : of) before.push_back(everything(mesh, one));
      for (int step = 0; step < 15; ++step) {
        mutate(random, mesh);
        for (std::size_t i = 0; i < of.size(); ++i) {
          auto now = everything(mesh, of[i]);
          for (const auto& [id, seen] : now) {
            const auto [cached, added] = bytes_of.emplace(seen.key, seen.any);
            CHECK_MESSAGE(cached->second == seen.any, "one key, two encodings: " << id.second);
            const auto old = before[i].find(id);
            if (old == before[i].end()) continue;
            (old->second.any == seen.any ? unchanged : changed)++;
            if (old->second.any == seen.any)
              CHECK_MESSAGE(old->second.references == seen.references,
                            "one encoding, other references: " << id.second);
          }
          before[i] = std::move(now);
        }
      }
    }
    CHECK(changed > 100);
    CHECK(unchanged > 1000);
  }

  TEST_CASE("every reference of a listener or a cluster is among the resources of its class") {
    Random random = osm::testing::seeded();
    for (int round = 0; round < osm::testing::steps(200, 2'000); ++round) {
      Mesh mesh = random_mesh(random);
      if (round % 3 == 0) mesh.permissive();
      mesh.snapshot.config.proxy.tracing = {round % 2 == 0, "collector.example", Port{80}, "/"};
      mesh.snapshot.config.proxy.external_authorization.enabled = round % 4 < 2;
      for (const auto& of : classes(random)) {
        const auto all = everything(mesh, of);
        for (const auto& [id, seen] : all)
          for (const auto& reference : seen.references)
            if (reference.type != XdsType::kSecret)
              CHECK_MESSAGE(all.count({reference.type, reference.name}) == 1,
                            id.second << " names " << reference.name);
      }
    }
  }

  TEST_CASE("values that a class does not read change none of its keys") {
    Random random = osm::testing::seeded();
    int compared = 0;
    for (int round = 0; round < osm::testing::steps(200, 2'000); ++round) {
      Mesh mesh = random_mesh(random);
      for (const auto& of : classes(random)) {
        const auto read = translate::services_read_by(mesh.snapshot, of);
        const auto before = everything(mesh, of);
        Mesh after = mesh;
        ++after.snapshot.generation;
        for (const ServiceName& service : kServices) {
          if (std::binary_search(read.begin(), read.end(), service)) continue;
          after.put(random_entry(random, service));
          after.put(random_endpoints(random, service));
        }
        for (const ServiceIdentity& other : kIdentities)
          if (other != of.identity) put_random_policy(random, after, other);
        const auto now = everything(after, of);
        REQUIRE(now.size() == before.size());
        for (const auto& [id, seen] : now) {
          CHECK_MESSAGE(before.at(id).key == seen.key, id.second);
          ++compared;
        }
      }
    }
    CHECK(compared > 500);
  }

  TEST_CASE("details that no byte shows are in no key") {
    auto mesh = worked_example();
    const auto keys = [&] {
      std::vector<Digest> out;
      for (const auto& of : {client_class(), server_class()})
        for (const XdsType type : kXdsTypes)
          for (const auto& input : mesh.inputs(of, type)) out.push_back(input->key());
      return out;
    };
    const auto before = keys();
    mesh.snapshot.config.certificates.service_validity = std::chrono::hours(1);
    mesh.put(kServer, {}, {http_target("tt", {kClient}, {{"renamed", "/status/.*", {"GET"}, {}}})});
    auto entry = server_entry();
    entry.named_targets = {{"x", "y"}};
    mesh.put(entry);
    CHECK(keys() == before);
  }
}
