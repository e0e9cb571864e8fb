// Several streams of several proxies, each with requests, answers and ends in any order, while the
// mesh changes → the hub: each proxy is sent its own identity's secrets alone, has one stream, and
// comes to hold what a proxy that connects afresh is sent.
//
//   input: steps: '0' to '3' a proxy connects (client, server, client from elsewhere, a stranger),
//   '4' a request of a stream (which, type, '1' for a NACK, '1' for a stale nonce, '1' for a line
//   of a name), '5' a write ends (which), '6' a stream ends (which), '7' bytes (which, a line), '8'
//   the mesh changes (a digit), '9' seconds pass (a digit).
#include <array>

#include "fuzz/fuzz.hpp"
#include "fuzz/hub_rig.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using namespace ads_test;
using ads::index_of;

// The transport of one stream, and the proxy behind it.
class Stream final : public ads::ProxyStream {
 public:
  explicit Stream(std::size_t whose) : ProxyStream(XdsVariant::kSotw), proxy(whose) {}

  void read_next() override {
    require(!closed && !reading, "one message is read at a time");
    reading = true;
  }
  void write(const ads::Response& response) override {
    require(!closed && !writing, "one response is written at a time");
    require(response.nonce == std::to_string(++last_nonce_), "nonces go up by one");
    require(asked.at(index_of(response.type)), "nothing is sent that was not asked for");
    writing = response;
  }
  // The proxy has the response.
  ads::Response received() {
    ads::Response response = *std::exchange(writing, std::nullopt);
    nonces[index_of(response.type)] = response.nonce;
    versions[index_of(response.type)] = response.version;
    return response;
  }
  void close(ads::CloseCode, const std::string& text, bool) override {
    require(!closed && !text.empty(), "a stream ends once, with a reason");
    closed = true;
  }

  bool open() const { return !closed && !gone; }

  const std::size_t proxy;
  bool reading = false;
  bool closed = false;   // by the hub, after the write in flight
  bool gone = false;     // the proxy hung up
  bool refused = false;  // a response: it may hold other content until that changes
  std::optional<ads::Response> writing;
  std::array<bool, kXdsTypes.size()> asked{};
  std::array<std::string, kXdsTypes.size()> nonces, versions, accepted;

 private:
  std::uint64_t last_nonce_ = 0;
};

struct Identity {
  ProxyId id;
  ServiceIdentity account;
  std::string address;
};

class World {
 public:
  World() {
    client_chain_ = rig_.secrets.certificate_for(translate_test::kClient)->chain_pem;
    server_chain_ = rig_.secrets.certificate_for(translate_test::kServer)->chain_pem;
  }

  void step(Choices& choices) {
    const std::size_t kind = choices.below(10);
    if (kind < 4) {
      if (streams_.size() < 12) connect(kind);
    } else if (kind == 8) {
      change(choices.below(8));
    } else if (kind == 9) {
      rig_.executor.run_for(std::chrono::seconds(choices.below(10)));
    } else if (!streams_.empty()) {
      const ads::StreamId id = choices.below(streams_.size()) + 1;
      on_stream(kind, id, *streams_[id - 1], choices);
    }
    rig_.executor.run_until_idle();
  }

  // The mesh is as it was at first, and every proxy that is there acknowledges.
  void settle() {
    rig_.mesh.put(workload(kServerId, translate_test::kServer, {translate_test::kServerService}));
    rig_.mesh.allow(true);
    rig_.publish();
    for (std::size_t i = 0; i < streams_.size(); ++i) ask_for_all(i + 1);
    acknowledge_all();
    std::array<std::size_t, 2> open{};
    for (const auto& stream : streams_)
      if (stream->open() && stream->proxy < 3) ++open[stream->proxy % 2];
    std::set<std::string> refusing;
    for (const auto& stream : streams_)
      if (stream->open() && stream->refused) refusing.insert(identity(stream->proxy).id.str());
    require(open[0] <= 1 && open[1] <= 1, "a proxy has one stream");
    const auto before = held();
    rig_.executor.run_for(std::chrono::minutes(3));
    for (const std::size_t proxy : {0, 1}) {
      connect(proxy);
      rig_.executor.run_until_idle();
      require(!streams_.back()->closed, "a proxy of the mesh may connect");
      ask_for_all(streams_.size());
    }
    acknowledge_all();
    const Versions fresh = held();
    require(fresh.size() == 2, "each proxy of the mesh is connected");
    for (const auto& [id, sets] : before)
      require(refusing.contains(id) || fresh.at(id) == sets,
              "a proxy holds what a fresh one is sent", id);
  }

 private:
  using Versions = std::map<std::string, std::vector<std::string>>;

  Identity identity(std::size_t proxy) const {
    if (proxy == 1) return {kServerId, translate_test::kServer, "10.0.0.2"};
    if (proxy == 3)
      return {ProxyId("33333333-3333-4333-8333-333333333333"), translate_test::kClient, "10.0.0.9"};
    return {kClientId, translate_test::kClient, proxy == 0 ? "10.0.0.1" : "10.0.0.3"};
  }

  void connect(std::size_t proxy) {
    const Identity who = identity(proxy);
    const WallTime now = rig_.clock.wall_now();
    const ads::Peer peer{{who.id, {who.account.ns, who.account.name}},
                         CommonName("proxy"),
                         "ipv4:" + who.address + ":40000",
                         now,
                         now + std::chrono::hours(24),
                         {},
                         kDomain};
    streams_.push_back(std::make_shared<Stream>(proxy));
    rig_.hub.open(streams_.size(), peer, streams_.back());
  }

  void change(std::size_t kind) {
    if (kind == 0) rig_.mesh.set_endpoints({});
    if (kind == 1) rig_.mesh.set_endpoints({"10.2.0.1", "10.2.0.2"});
    if (kind == 2 || kind == 3) rig_.mesh.allow(kind == 3);
    if (kind == 4) rig_.mesh.remove_workload({translate_test::kServer.ns, kServerId});
    if (kind == 5)
      rig_.mesh.put(workload(kServerId, translate_test::kServer, {translate_test::kServerService}));
    if (kind == 6) rig_.mesh.put(workload(kServerId, translate_test::kServer, {}));
    rig_.publish();
  }

  static std::vector<std::string> names_of(XdsType type) {
    if (type == XdsType::kSecret) return kSecretNames;
    if (type == XdsType::kEndpoint) return kAssignmentNames;
    if (type == XdsType::kRoute) return kRouteNames;
    return {};
  }

  void say(ads::StreamId id, const std::string& bytes) {
    Stream& stream = *streams_[id - 1];
    if (!stream.open() || !stream.reading) return;
    stream.reading = false;
    rig_.hub.on_request(id, bytes);
    rig_.executor.run_until_idle();
  }

  // Answers the newest response that the proxy has, if there is one.
  void ask(ads::StreamId id, XdsType type, const std::vector<std::string>& names,
           bool stale = false, const std::string& error = "") {
    Stream& stream = *streams_[id - 1];
    const std::size_t at = index_of(type);
    if (!stream.open() || !stream.reading) return;
    stream.asked[at] = true;
    stream.refused |= !error.empty();
    if (error.empty() && !stale) stream.accepted[at] = stream.versions[at];
    say(id,
        request_bytes(type, names, stream.accepted[at], stale ? "999" : stream.nonces[at], error));
  }

  void on_stream(std::size_t kind, ads::StreamId id, Stream& stream, Choices& choices) {
    if (kind == 4) {
      const XdsType type = kXdsTypes[choices.below(kXdsTypes.size())];
      const std::string error = choices.flag() ? "refused" : "";
      const bool stale = choices.flag();
      std::vector<std::string> names = names_of(type);
      if (choices.flag()) names.push_back(choices.line(60));
      ask(id, type, names, stale, error);
    } else if (kind == 5) {
      end_write(id);
    } else if (kind == 6 && stream.open()) {
      stream.gone = true;
      rig_.hub.on_closed(id);
    } else if (kind == 7) {
      stream.refused = true;
      say(id, choices.line());
    }
  }

  bool end_write(ads::StreamId id) {
    Stream& stream = *streams_[id - 1];
    if (!stream.writing) return false;
    check(stream, stream.received());
    rig_.hub.on_write_done(id);
    rig_.executor.run_until_idle();
    return true;
  }

  void check(const Stream& stream, const ads::Response& response) const {
    require(stream.proxy != 3, "a stranger is sent nothing");
    if (response.type != XdsType::kSecret) return;
    const std::string& other = stream.proxy == 1 ? client_chain_ : server_chain_;
    for (const auto& resource : response.resources)
      require(resource->any.find(other) == std::string::npos,
              "a proxy is sent its own identity's secrets", resource->name);
  }

  void ask_for_all(ads::StreamId id) {
    Stream& stream = *streams_[id - 1];
    for (const XdsType type : kXdsTypes) {
      if (!stream.open()) return;
      ask(id, type, names_of(type));
    }
  }

  void acknowledge_all() {
    int responses = 0;
    for (bool busy = true; busy;) {
      busy = false;
      for (ads::StreamId id = 1; id <= streams_.size(); ++id) {
        const Stream& stream = *streams_[id - 1];
        if (!stream.writing) continue;
        const XdsType type = stream.writing->type;
        busy = end_write(id) || busy;
        require(++responses < 1000, "proxies that acknowledge come to rest");
        ask(id, type, names_of(type));
      }
      if (!busy) busy = rig_.executor.run_for(std::chrono::seconds(20)) > 0 && any_writing();
    }
  }
  bool any_writing() const {
    return std::ranges::any_of(streams_,
                               [](const auto& stream) { return stream->writing.has_value(); });
  }

  // Versions of the acknowledged sets, by proxy; nothing at all and an empty set are one.
  Versions held() const {
    Versions all;
    for (const Proxy& proxy : rig_.hub.list())
      for (const ads::Hub::View& view : rig_.hub.find(proxy.id.str()))
        for (const auto& set : view.acknowledged)
          all[proxy.id.str()].push_back(set && !set->empty() ? set->version() : "");
    return all;
  }

  HubRig rig_;
  std::string client_chain_, server_chain_;
  std::vector<std::shared_ptr<Stream>> streams_;
};

void run(Choices choices) {
  World world;
  for (int steps = 0; steps < 200 && !choices.empty(); ++steps) world.step(choices);
  world.settle();
}

const bool kAdded = add("streams", [](std::string_view input) { run(Choices(input)); });

}  // namespace
