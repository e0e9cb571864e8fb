// Streams on many threads end up current, and each resource is encoded once.
//
// Properties under real concurrency. Over transports in memory, so that it also runs
// under ThreadSanitizer; seeds are printed, schedules are the machine's.
#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "ads/hub_rig.hpp"
#include "ads/resource_cache.hpp"
#include "base/strand.hpp"
#include "lib/run.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::CloseCode;
using ads::Response;
using ads::StreamId;
using osm::testing::ThreadExecutor;
using osm::testing::wait_until;
using translate_test::kClient;
using translate_test::kServer;
using translate_test::kServerService;

namespace {

struct World {
  SystemClock clock;
  RandomRng rng{osm::testing::seed()};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  TestCa ca{clock};
  FakeSecrets secrets{ca};
  FakeRegistry registry;
  ThreadExecutor executor{4};
  Strand strand{executor};
  ads::Hub hub{{.unknown_workload_wait = 20ms},
               {{executor, executor, clock, rng, log, metrics}, strand, secrets, registry}};
  std::atomic<StreamId> last_id = 0;
  std::atomic<int> open_streams = 0;

  ~World() { strand.stop(); }
};

// A proxy that connects, asks for everything, acknowledges what comes, hangs up after a while, and
// starts again. Everything of it runs on its own strand; the hub's calls only post there.
class ThreadedProxy {
 public:
  ThreadedProxy(World& world, const ProxyId& id, const ServiceIdentity& account, std::uint64_t seed)
      : world_(world), id_(id), account_(account), random_(seed), strand_(world.executor) {}
  ~ThreadedProxy() { strand_.stop(); }

  void start() {
    strand_.post([this] { connect(); });
  }
  // From now on it hangs up no more.
  void stay() { staying_ = true; }
  int lives() const { return lives_; }
  std::string newest(XdsType type) const {
    std::lock_guard lock(mutex_);
    const auto at = newest_.find(type);
    return at == newest_.end() ? "" : at->second;
  }

 private:
  // The near end, called on the hub's strand.
  class Stream final : public ads::ProxyStream {
   public:
    Stream(ThreadedProxy& proxy, StreamId id)
        : ProxyStream(XdsVariant::kSotw), proxy_(proxy), id_(id) {
      ++proxy_.world_.open_streams;
    }
    void read_next() override {
      CHECK_FALSE(closed_);
      proxy_.strand_.post([this_ = &proxy_, id = id_] { this_->on_read_next(id); });
    }
    void write(const Response& response) override {
      CHECK_FALSE(closed_);
      proxy_.strand_.post([this_ = &proxy_, id = id_, response] { this_->receive(id, response); });
    }
    void close(CloseCode, const std::string&, bool) override {
      CHECK_FALSE(closed_);
      closed_ = true;
      --proxy_.world_.open_streams;
      proxy_.strand_.post([this_ = &proxy_, id = id_] { this_->on_close(id); });
    }

   private:
    ThreadedProxy& proxy_;
    const StreamId id_;
    bool closed_ = false;
  };

  void connect() {
    ++lives_;
    stream_ = ++world_.last_id;
    reads_ = 0;
    left_ = 1 + random_() % 12;
    outgoing_.clear();
    {
      std::lock_guard lock(mutex_);
      newest_.clear();
    }
    ads::Peer peer{{id_, {account_.ns, account_.name}},
                   CommonName("proxy"),
                   "ipv4:10.0.0.1:1",
                   world_.clock.wall_now(),
                   world_.clock.wall_now() + 1h};
    world_.strand.post([this, id = stream_, peer] {
      world_.hub.open(id, peer, std::make_shared<Stream>(*this, id));
    });
    for (XdsType type : kXdsTypes) say(type, "", "");
  }
  void say(XdsType type, const std::string& version, const std::string& nonce) {
    static const std::map<XdsType, std::vector<std::string>> kNames{
        {XdsType::kSecret, kSecretNames},
        {XdsType::kEndpoint, kAssignmentNames},
        {XdsType::kRoute, kRouteNames}};
    const auto names = kNames.find(type);
    outgoing_.push_back(request_bytes(
        type, names == kNames.end() ? std::vector<std::string>{} : names->second, version, nonce));
    flush();
  }
  void flush() {
    if (reads_ == 0 || outgoing_.empty()) return;
    --reads_;
    world_.strand.post([this, id = stream_, bytes = std::move(outgoing_.front())] {
      world_.hub.on_request(id, bytes);
    });
    outgoing_.pop_front();
  }
  void on_read_next(StreamId id) {
    if (id != stream_) return;
    CHECK(++reads_ == 1);
    flush();
  }
  void receive(StreamId id, const Response& response) {
    // A write on a connection that was given up fails.
    if (id != stream_) return world_.strand.post([this, id] { world_.hub.on_closed(id); });
    world_.strand.post([this, id] { world_.hub.on_write_done(id); });
    {
      std::lock_guard lock(mutex_);
      std::string& newest = newest_[response.type];
      newest.clear();
      for (const auto& resource : response.resources) newest += resource->any;
    }
    say(response.type, response.version, response.nonce);
    if (!staying_ && --left_ == 0) {
      // Half of them open the next stream before the hub knows that this one is gone.
      const StreamId old = stream_;
      if (random_() % 2) connect();
      world_.strand.post([this, old] { world_.hub.on_closed(old); });
    }
  }
  void on_close(StreamId id) {
    if (id == stream_) connect();
  }

  World& world_;
  const ProxyId id_;
  const ServiceIdentity account_;
  std::mt19937_64 random_;
  std::atomic<bool> staying_ = false;
  std::atomic<int> lives_ = 0;
  StreamId stream_ = 0;
  int reads_ = 0;  // how often the hub may be told something
  std::size_t left_ = 0;
  std::deque<std::string> outgoing_;
  mutable std::mutex mutex_;
  std::map<XdsType, std::string> newest_;
  Strand strand_;
};

// An input whose encoding is watched.
class WatchedInput final : public translate::Input {
 public:
  WatchedInput(std::string name, std::atomic<int>& running, std::atomic<int>& encoded)
      : name_(std::move(name)), running_(running), encoded_(encoded) {}
  XdsType type() const override { return XdsType::kCluster; }
  const std::string& name() const override { return name_; }
  Digest key() const override { return digest_of(name_); }
  translate::EncodedResource encode() const override {
    CHECK(++running_ == 1);
    ++encoded_;
    std::this_thread::yield();
    --running_;
    return {XdsType::kCluster, name_, name_, digest_of(name_), {}};
  }

 private:
  std::string name_;
  std::atomic<int>& running_;
  std::atomic<int>& encoded_;
};

}  // namespace

TEST_SUITE("ads threads") {
  TEST_CASE("a resource is encoded once, however many ask for it at once") {
    constexpr int kThreads = 4;
    constexpr int kKeys = 300;
    osm::testing::CapturingMetrics metrics;
    ads::ResourceCache cache(metrics);
    std::vector<std::atomic<int>> running(kKeys);
    std::vector<std::atomic<int>> encoded(kKeys);
    std::vector<std::vector<ads::EncodedPtr>> got(kThreads);
    std::atomic<int> arrived = 0;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
          for (int key = 0; key < kKeys; ++key) {
            // All of them start on each key together.
            ++arrived;
            while (arrived < (key + 1) * kThreads) std::this_thread::yield();
            const auto k = static_cast<std::size_t>(key);
            const WatchedInput input("c" + std::to_string(key), running[k], encoded[k]);
            got[static_cast<std::size_t>(t)].push_back(cache.get(input));
          }
        });
    }
    for (int key = 0; key < kKeys; ++key) CHECK(encoded[static_cast<std::size_t>(key)] == 1);
    for (const auto& mine : got) CHECK(mine == got[0]);  // the same resources, by pointer
    CHECK(metrics.sum("osm_resources_encoded_total") == kKeys);
    CHECK(cache.size() == kKeys);
    got.clear();
    CHECK(cache.size() == 0);  // nothing is kept that nobody holds
  }

  TEST_CASE("streams come and go while snapshots and secrets change, and end up current") {
    World world;
    auto random = osm::testing::seeded();
    TestMesh mesh;
    const ProxyId extra("33333333-3333-4333-8333-333333333333");
    const auto publish = [&] {
      world.strand.post(
          [&world, snapshot = mesh.next()] { world.hub.on_snapshot(snapshot, snapshot->changes); });
    };
    const Subscription rotations =
        world.secrets.subscribe([&](const std::optional<ServiceIdentity>& identity) {
          world.strand.post([&world, identity] { world.hub.on_secrets(identity); });
        });
    ThreadedProxy client(world, kClientId, kClient, random());
    ThreadedProxy server(world, kServerId, kServer, random());
    ThreadedProxy comes_and_goes(world, extra, kClient, random());
    const std::vector<ThreadedProxy*> proxies{&client, &server, &comes_and_goes};
    publish();
    for (ThreadedProxy* proxy : proxies) proxy->start();
    const auto all_lived = [&] {
      return std::all_of(proxies.begin(), proxies.end(),
                         [](const ThreadedProxy* proxy) { return proxy->lives() >= 50; });
    };
    int changes = 0;
    CHECK(wait_until(
        [&] {
          switch (random() % 5) {
            case 0:
              world.secrets.rotate(random() % 2 ? kClient : kServer);
              break;
            case 3:
              mesh.set_endpoints({"10.2.0." + std::to_string(random() % 200)});
              break;
            case 1:
              mesh.allow(random() % 4 != 0);
              break;
            case 2:
              mesh.put(workload(extra, kClient, {}));
              break;
            default:
              mesh.remove_workload({kClient.ns, extra});
              break;
          }
          publish();
          ++changes;
          return all_lived() && changes >= 200;
        },
        60s));
    mesh.allow(true);
    mesh.put(workload(extra, kClient, {}));
    mesh.set_endpoints({"10.9.9.9"});
    publish();
    for (ThreadedProxy* proxy : proxies) proxy->stay();
    // The last one to start a life may still be in the one before.
    for (ThreadedProxy* proxy : {&client, &comes_and_goes})
      CHECK(wait_until([&] {
        return proxy->newest(XdsType::kEndpoint).find("10.9.9.9") != std::string::npos &&
               !proxy->newest(XdsType::kSecret).empty() && !proxy->newest(XdsType::kRoute).empty();
      }));
    CHECK(wait_until([&] { return world.registry.connected().size() == proxies.size(); }));
    world.strand.stop();
    world.hub.endings().close_all(CloseCode::kUnavailable, "shutting-down");
    CHECK(world.open_streams == 0);
    CHECK(world.registry.connected().empty());
  }
}
