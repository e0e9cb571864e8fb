// After any random life a proxy holds the resources that a fresh one gets: refusals of a part of
// what it is sent, lost streams, several replicas, a listener and a route configuration for each
// Service.
#include <doctest/doctest.h>

#include <memory>

#include "ads/fake_envoy.hpp"
#include "lib/run.hpp"

using namespace osm;
using namespace osm::ads_test;
using ads::ResourceSet;
using ads::ResourceSets;
using ads::Session;

namespace {

// Services of one class by number; a variant changes bytes, and "bad" ones are refused by Envoy.
struct Mesh {
  struct Service {
    int port = 0;  // another one is another cluster
    int cluster = 0, endpoints = 0, route = 0;
    int split_to = -1;  // another service that its route names too
    int listener = 0;
    bool http = false, bad_cluster = false, bad_endpoints = false, bad_route = false;
    bool bad_listener = false;
  };
  std::map<int, Service> services;
  int inbound = 0;  // a listener of no Service
  int secrets = 0;

  ResourceSets sets() const {
    std::array<std::vector<EncodedPtr>, 5> out;
    const auto add = [&](XdsType type, const std::string& name, const std::string& bytes,
                         std::vector<ads::EncodedResource::Reference> references = {}) {
      out[index_of(type)].push_back(
          resource(type, name, std::string(xds_type_text(type)) + name + bytes, references));
    };
    const auto cluster_of = [](int number, const Service& s) {
      return "s" + std::to_string(number) + "|" + std::to_string(s.port);
    };
    for (const auto& [number, s] : services) {
      const std::string service = "s" + std::to_string(number), name = cluster_of(number, s);
      add(XdsType::kCluster, name, std::to_string(s.cluster) + (s.bad_cluster ? "bad" : ""),
          {{XdsType::kEndpoint, name}, {XdsType::kSecret, "root"}, {XdsType::kSecret, "own"}});
      add(XdsType::kEndpoint, name, std::to_string(s.endpoints) + (s.bad_endpoints ? "bad" : ""));
      std::vector<ads::EncodedResource::Reference> named{{XdsType::kCluster, name}};
      if (s.http) {
        std::vector<ads::EncodedResource::Reference> backends = std::move(named);
        std::string bytes = std::to_string(s.route) + (s.bad_route ? "bad" : "");
        if (const auto other = services.find(s.split_to);
            s.split_to != number && other != services.end())
          backends.push_back({XdsType::kCluster, cluster_of(s.split_to, other->second)});
        for (const auto& backend : backends) bytes += "," + backend.name;
        add(XdsType::kRoute, "r" + service, bytes, backends);
        named = {{XdsType::kRoute, "r" + service}};
      }
      add(XdsType::kListener, "l" + service,
          std::to_string(s.listener) + named.front().name + (s.http ? "h" : "t") +
              (s.bad_listener ? "bad" : ""),
          named);
    }
    if (!services.empty()) add(XdsType::kListener, "in", std::to_string(inbound));
    add(XdsType::kSecret, "root", "x");
    add(XdsType::kSecret, "own", std::to_string(secrets));
    ResourceSets sets;
    for (XdsType type : kXdsTypes)
      sets[index_of(type)] = ResourceSet::make(std::move(out[index_of(type)]));
    return sets;
  }

  void heal() {
    for (auto& [number, s] : services) {
      // Good bytes that nobody refused before.
      if (std::exchange(s.bad_cluster, false)) ++s.cluster;
      if (std::exchange(s.bad_endpoints, false)) ++s.endpoints;
      if (std::exchange(s.bad_route, false)) ++s.route;
      if (std::exchange(s.bad_listener, false)) ++s.listener;
    }
  }

  void mutate(std::mt19937_64& random, bool refusals) {
    Service& s = services[static_cast<int>(random() % 6)];
    const bool bad = refusals && random() % 6 == 0;
    switch (random() % 12) {
      case 0:
        ++s.cluster;
        s.bad_cluster = bad;
        break;
      case 1:
        ++s.endpoints;
        s.bad_endpoints = bad;
        break;
      case 2:
        ++s.route;
        s.bad_route = bad;
        break;
      case 3:
        s.http = !s.http;
        break;
      case 4:
        ++inbound;
        break;
      case 5:
        ++secrets;
        break;
      case 6:
        ++s.listener;
        s.bad_listener = bad;
        break;
      case 7:  // as it was before: a proxy may still claim that
        --(random() % 2 ? s.listener : s.route);
        s.bad_listener = s.bad_route = false;
        break;
      case 8:
        s.split_to = static_cast<int>(random() % 6);
        break;
      case 9:
        services.erase(services.begin());
        break;
      case 10:
        s.port = 1 - s.port;
        break;
      default:
        if (random() % 8 == 0) {
          services.clear();
        } else {
          services.erase(std::prev(services.end()));
        }
        break;
    }
  }
};

struct Life {
  XdsVariant variant;
  std::mt19937_64& random;
  Mesh& mesh;
  ads::NameSetPool pool;
  FakeEnvoy envoy{variant, random};
  std::unique_ptr<Session> session;
  std::array<ads::Doubts, 2> doubts{};  // that each replica remembers
  std::size_t replica = 0;
  std::deque<Response> wire;  // written, not received
  SteadyTime now{};
  int closes = 0;
  int moves = 0;
  int given_up = 0;  // clusters that Envoy warmed for longer than it waits

  Life(XdsVariant v, std::mt19937_64& r, Mesh& m) : variant(v), random(r), mesh(m) { begin(); }

  void reconnect() {
    if (session) doubts[replica] = session->doubts();
    begin();
  }
  void begin() {
    session = std::make_unique<Session>(variant, pool, doubts[replica]);
    session->set_resources(mesh.sets());
    wire.clear();
    envoy.connect();
  }
  // To the other replica, which has equal sets and remembers earlier streams, or which has just
  // started. What a proxy refused is known to the controller that it refused it to only
  // (docs/adr/0008).
  void move(bool restarted) {
    const ads::Doubts now_doubted = session->doubts();
    if (variant == XdsVariant::kDelta ? !envoy.claims_truly() : now_doubted != ads::Doubts{})
      return;
    doubts[replica] = now_doubted;
    replica = 1 - replica;
    if (restarted) doubts[replica] = {};
    begin();
    ++moves;
  }
  void serve() {
    if (auto response = session->next_response(now)) {
      CHECK(session->writing());
      CHECK_FALSE(session->next_response(now));  // one write in flight
      wire.push_back(std::move(*response));
    } else if (session->emptied()) {
      ++closes;
      reconnect();
    }
  }
  bool deliver() {
    if (wire.empty()) return false;
    const Response response = std::move(wire.front());
    wire.pop_front();
    session->on_write_done();
    envoy.receive(response);
    return true;
  }
  bool request() {
    auto next = envoy.next_request();
    if (!next) return false;
    if (variant == XdsVariant::kDelta) {
      REQUIRE(session->on_request(next->delta_view()).ok());
    } else {
      session->on_request(next->view());
    }
    return true;
  }
  void quiesce() {
    for (int round = 0; round < 10000; ++round) {
      serve();
      const bool delivered = deliver();
      const bool moved = request() || delivered;
      if (!moved && !session->next_response(now)) {
        // Envoy waits for longer than the session: its initial_fetch_timeout is 15 s.
        const auto deadline = session->deadline();
        if (deadline && now < *deadline) {
          now = *deadline;
        } else if (envoy.gives_up_warming()) {
          ++given_up;
        } else if (!deadline) {
          return;
        }
      } else if (!moved) {
        FAIL("a response appeared out of nothing");
      }
    }
    FAIL("the proxy and the server never come to rest");
  }
};

std::string text_of(const FakeEnvoy& envoy, XdsType type) {
  std::string text;
  for (const auto& [name, r] : envoy.applied(type)) text += name + "=" + r->any + " ";
  return text;
}

std::string text_of(const Mesh& mesh, XdsType type) {
  std::string text;
  if (mesh.services.empty()) return text;  // then nothing asks for secrets
  const auto set = mesh.sets()[index_of(type)];
  for (const EncodedPtr& r : set->resources()) text += r->name + "=" + r->any + " ";
  return text;
}

// In both variants alike: a fresh proxy holds what the mesh says.
void check_like_fresh(Life& life) {
  Life fresh(life.variant, life.random, life.mesh);
  fresh.quiesce();
  CHECK_FALSE(life.envoy.warming());
  for (XdsType type : kXdsTypes) REQUIRE(text_of(fresh.envoy, type) == text_of(life.mesh, type));
  for (XdsType type : kXdsTypes) {
    CAPTURE(xds_type_text(type));
    REQUIRE(text_of(life.envoy, type) == text_of(fresh.envoy, type));
    if (!life.envoy.applied(type).empty())
      REQUIRE(life.envoy.claim(type) == fresh.envoy.claim(type));
  }
}

// Steps of one life.
constexpr int kSteps = 4'000;
// Lives of each kind, in each variant.
const auto kLives = static_cast<std::uint64_t>(osm::testing::steps(9, 1'000));

void take_a_step(Life& life) {
  const std::uint64_t choice = life.random() % 12;
  if (choice < 4) {
    life.serve();
  } else if (choice < 8) {
    life.deliver();
  } else {
    life.request();
  }
}

// Events that a single short life may lack.
struct Seldom {
  int closes = 0;
  int moves = 0;
};

// Refusals, lost streams, other replicas; now and then peace, and a look at what the proxy holds.
void live(XdsVariant variant, std::uint64_t seed, Seldom& seldom) {
  std::mt19937_64 random(seed);
  Mesh mesh;
  Life life(variant, random, mesh);
  for (int step = 1; step <= kSteps; ++step) {
    switch (random() % 64) {
      case 0:
      case 1:
      case 2:
      case 3:
        mesh.mutate(random, true);
        life.session->set_resources(mesh.sets());
        break;
      case 4:
        if (random() % 4 == 0) life.reconnect();
        break;
      case 5:
        if (random() % 2 == 0) life.move(random() % 2 == 0);
        break;
      case 6:
      case 7:
        life.now += std::chrono::seconds(random() % 4);
        break;
      default:
        take_a_step(life);
        break;
    }
    if (step % 250 != 0) continue;
    CAPTURE(step);
    mesh.heal();
    life.session->set_resources(mesh.sets());
    life.quiesce();
    REQUIRE(life.session->settled());
    check_like_fresh(life);
    for (XdsType type : kXdsTypes)  // doubts about nothing are no doubts
      REQUIRE((!life.session->doubts()[index_of(type)].unsure || life.envoy.applied(type).empty()));
    life.envoy.received = {};
    random() % 2 ? life.reconnect() : life.move(true);
    life.quiesce();
    for (XdsType type : kXdsTypes) {
      CAPTURE(xds_type_text(type));
      // In delta, who holds nothing looks like a fresh proxy, and is told that there is nothing.
      if (variant == XdsVariant::kDelta && life.envoy.applied(type).empty()) continue;
      REQUIRE(life.envoy.received[index_of(type)] == 0);
    }
  }
  seldom.closes += life.closes;
  seldom.moves += life.moves;
}

// Nothing refused: traffic must not suffer, in delta from lost streams and moves neither.
void live_in_peace(XdsVariant variant, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Mesh mesh;
  mesh.services[100];  // never removed from the middle: something always stays
  mesh.services[-100];
  Life life(variant, random, mesh);
  life.quiesce();
  for (int step = 0; step < kSteps / 5; ++step) {
    if (step % 30 == 0) {
      mesh.mutate(random, false);
      mesh.services[100];
      mesh.services[-100];
      life.session->set_resources(mesh.sets());
    }
    // In state of the world a proxy does not say which clusters it holds.
    if (variant == XdsVariant::kDelta && random() % 40 == 0)
      random() % 2 ? life.reconnect() : life.move(random() % 2 == 0);
    take_a_step(life);
    life.now += std::chrono::milliseconds(random() % 30);
  }
  life.quiesce();
  CHECK(life.envoy.broken == 0);
  CHECK(life.envoy.premature == 0);
  CHECK(life.envoy.starved == 0);
  CHECK(life.closes == 0);
  CHECK(life.given_up == 0);
  check_like_fresh(life);
}

template <class F>
void each_life(XdsVariant variant, F live_one) {
  for (std::uint64_t life = 0; life < kLives; ++life) {
    CAPTURE(xds_variant_text(variant));
    CAPTURE(life);
    live_one(variant, osm::testing::seed() + life);
  }
}

}  // namespace

TEST_SUITE("ads::Session model") {
  TEST_CASE("a changed cluster that leaves the mesh behind a lost stream does not warm for long") {
    std::mt19937_64 random(osm::testing::seed());
    Mesh mesh;
    mesh.services[0];
    mesh.services[1];
    Life life(XdsVariant::kDelta, random, mesh);
    life.quiesce();
    SteadyTime last{};
    ++mesh.services[0].cluster;
    SUBCASE("before the next one: it is told so after a while") {
      life.session->set_resources(mesh.sets());
      life.serve();
      REQUIRE(life.deliver());
      REQUIRE(life.envoy.warming());
      mesh.services[0].port = 1;
      life.reconnect();
      last += Session::kWarmingBound;
    }
    SUBCASE("after its first response on the next one: its endpoints stay with it") {
      life.reconnect();
      REQUIRE(life.request());
      life.serve();
      REQUIRE(life.deliver());
      REQUIRE(life.envoy.warming());
      mesh.services[0].port = 1;
      life.session->set_resources(mesh.sets());
    }
    life.quiesce();
    CHECK(life.given_up == 0);
    CHECK(life.now == last);
    CHECK(life.envoy.starved == 0);
    check_like_fresh(life);
  }

  TEST_CASE("after any history a proxy equals a new one and reconnects without a push") {
    for (XdsVariant variant : {XdsVariant::kSotw, XdsVariant::kDelta}) {
      Seldom seldom;
      each_life(variant, [&](XdsVariant v, std::uint64_t seed) { live(v, seed, seldom); });
      CHECK(seldom.closes > 0);
      CHECK(seldom.moves > static_cast<int>(kLives) * kSteps / 2000);
    }
  }

  TEST_CASE(
      "no cluster or endpoints go while the proxy uses them, none is used before it is warm") {
    for (XdsVariant variant : {XdsVariant::kSotw, XdsVariant::kDelta})
      each_life(variant, live_in_peace);
  }
}
