// One stream: requests in any order, with any names, nonces, versions and errors, while what the
// proxy should hold changes → ads::Session, in both variants of xDS. Whatever a proxy said, once it
// behaves again it is brought to what it should hold.
//
//   input: '0' SotW or '1' delta, doubts of earlier streams (a bit each), then steps: '0' request,
//   '1' change of the mesh, '2' a write, '3' time, '4' an ACK. What each reads is in its function.
#include <google/protobuf/any.pb.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ads/session.hpp"
#include "base/utf8.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "fuzz/fuzz.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using ads::EncodedPtr;
using ads::index_of;
using ads::Session;

constexpr std::array<const char*, 4> kNames{"a", "b", "c", "d"};

bool carries_whole_set(XdsType type) {
  return type == XdsType::kCluster || type == XdsType::kListener;
}

EncodedPtr resource(XdsType type, const std::string& name, int variant) {
  google::protobuf::Any any;
  any.set_type_url(std::string(xds_type_url(type)));
  any.set_value(name + std::to_string(variant));
  auto encoded = std::make_shared<ads::EncodedResource>();
  encoded->type = type;
  encoded->name = name;
  encoded->any = any.SerializeAsString();
  encoded->hash = digest_of(encoded->any);
  // Every second variant names more, so that references come and go.
  const std::string& other = variant % 2 == 0 ? name : std::string(kNames[0]);
  if (type == XdsType::kCluster)
    encoded->references = {{XdsType::kSecret, other}, {XdsType::kEndpoint, name}};
  if (type == XdsType::kListener)
    encoded->references = {{XdsType::kSecret, name}, {XdsType::kCluster, other}};
  if (type == XdsType::kListener && variant % 3 == 0)
    encoded->references.push_back({XdsType::kRoute, name});
  if (type == XdsType::kRoute) encoded->references = {{XdsType::kCluster, other}};
  return encoded;
}

ads::ResourceSetPtr set_of(XdsType type, unsigned mask, int variant) {
  std::vector<EncodedPtr> resources;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if ((mask >> i & 1) != 0) resources.push_back(resource(type, kNames[i], variant));
  return ads::ResourceSet::make(std::move(resources));
}

class Stream {
 public:
  explicit Stream(Choices& choices)
      : choices_(choices),
        variant_(choices.flag() ? XdsVariant::kDelta : XdsVariant::kSotw),
        session_(variant_, pool_, doubts_from(choices)) {}

  void step() {
    switch (choices_.below(5)) {
      case 0:
        request();
        break;
      case 1:
        change();
        break;
      case 2:
        write();
        break;
      case 3:
        now_ += std::chrono::seconds(choices_.below(16));
        break;
      default:
        acknowledge(kXdsTypes[choices_.below(kXdsTypes.size())]);
    }
    observe();
  }

  bool ended() const { return ended_; }

  // The proxy acknowledges everything from now on: it must come to hold the newest sets.
  void settle() {
    for (const XdsType type : kXdsTypes) sets_[index_of(type)] = set_of(type, 0xf, 100);
    session_.set_resources(sets_);
    int responses = 0;
    for (int quiet = 0; quiet < 2;) {
      if (session_.writing()) session_.on_write_done();
      if (write()) {
        require(++responses < 200, "a proxy that acknowledges comes to rest");
        quiet = 0;
      } else if (unanswered()) {
        for (const XdsType type : kXdsTypes) acknowledge(type);
        quiet = 0;
      } else {
        ++quiet;
        now_ += std::chrono::seconds(30);
      }
    }
    require(session_.settled(), "a proxy that acknowledged everything is settled");
    for (const XdsType type : kXdsTypes) check_settled(type);
  }

 private:
  // The proxy's subscription and the content that it was sent.
  struct Type {
    bool asked = false;
    bool all = false;  // CDS, LDS
    std::set<std::string> names;
    std::set<std::string> claimed;  // delta: held, by its first request
    std::string version;
    std::string nonce;
    bool unanswered = false;
  };
  struct Said {
    XdsType type{};
    std::vector<std::string> names{};  // SotW: all of them; delta: more of them
    std::vector<std::string> dropped{};
    std::map<std::string, std::string> held{};
    std::string version{};
    std::string nonce{};
    std::optional<std::string> error{};
  };

  static ads::Doubts doubts_from(Choices& choices) {
    ads::Doubts doubts{};
    const std::uint8_t bits = choices.byte();
    for (std::size_t i = 0; i < doubts.size(); ++i) doubts[i].unsure = (bits >> i & 1) != 0;
    return doubts;
  }

  Type& of(XdsType type) { return types_[index_of(type)]; }
  bool delta() const { return variant_ == XdsVariant::kDelta; }

  // A bit for each name; 0x40: "*"; 0x80: a line.
  std::vector<std::string> names() {
    const unsigned mask = choices_.byte();
    std::vector<std::string> chosen;
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if ((mask >> i & 1) != 0) chosen.emplace_back(kNames[i]);
    if ((mask & 0x40) != 0) chosen.emplace_back("*");
    if ((mask & 0x80) != 0) chosen.push_back(choices_.line(40));
    return chosen;
  }

  // type (5: unknown), names, nonce, error; SotW: version; delta: dropped names, held names and
  // whether their versions are those of the mesh.
  void request() {
    const std::size_t kind = choices_.below(6);
    if (kind == kXdsTypes.size()) return request_unknown();
    Said said{.type = kXdsTypes[kind], .names = names()};
    Type& t = of(said.type);
    said.nonce = one_of({t.nonce, "", "0", std::to_string(last_nonce_)});
    if (choices_.flag()) said.error = choices_.line(40);
    const auto& base = sets_[kind];
    if (delta()) {
      said.dropped = names();
      const bool right = choices_.flag();
      for (const std::string& name : names()) {
        const EncodedPtr resource = base ? base->find(name) : nullptr;
        said.held[name] = right && resource ? ads::resource_version(*resource) : "bogus";
      }
    } else {
      said.version = one_of({t.version, "", "bogus", base ? base->version() : std::string()});
    }
    send(said);
  }

  void request_unknown() {
    envoy::service::discovery::v3::DiscoveryRequest unknown;
    unknown.set_type_url("type.googleapis.com/unknown");
    envoy::service::discovery::v3::DeltaDiscoveryRequest delta_unknown;
    delta_unknown.set_type_url(unknown.type_url());
    const std::string bytes =
        delta() ? delta_unknown.SerializeAsString() : unknown.SerializeAsString();
    const auto heard = session_.on_message(bytes);
    require(heard.ok() && heard->effect == Session::Effect::kUnknownType,
            "an unknown type is told");
  }

  std::string one_of(const std::array<std::string, 4>& texts) {
    return texts[choices_.below(texts.size())];
  }

  std::string bytes_of(const Said& said) const {
    const auto write = [&](auto& request) {
      request.set_type_url(std::string(xds_type_url(said.type)));
      request.set_response_nonce(said.nonce);
      if (said.error) request.mutable_error_detail()->set_message(*said.error);
      return request.SerializeAsString();
    };
    if (!delta()) {
      envoy::service::discovery::v3::DiscoveryRequest request;
      request.set_version_info(said.version);
      for (const std::string& name : said.names) request.add_resource_names(name);
      return write(request);
    }
    envoy::service::discovery::v3::DeltaDiscoveryRequest request;
    for (const std::string& name : said.names) request.add_resource_names_subscribe(name);
    for (const std::string& name : said.dropped) request.add_resource_names_unsubscribe(name);
    for (const auto& [name, version] : said.held)
      (*request.mutable_initial_resource_versions())[name] = version;
    return write(request);
  }

  static bool is_text(const Said& said) {
    const auto all = [](const std::vector<std::string>& names) {
      return std::all_of(names.begin(), names.end(), is_utf8);
    };
    return all(said.names) && all(said.dropped) && is_utf8(said.error.value_or("")) &&
           std::all_of(said.held.begin(), said.held.end(),
                       [](const auto& held) { return is_utf8(held.first); });
  }

  void send(const Said& said) {
    Type& t = of(said.type);
    const bool overtaken =
        t.asked && !said.nonce.empty() && said.nonce != t.nonce && (delta() || !t.nonce.empty());
    const auto heard = session_.on_message(bytes_of(said));
    if (!heard.ok()) {
      require(!is_text(said), "a request of text is understood");
      ended_ = true;
      return;
    }
    require(heard->type == said.type, "a request is of its type");
    const Session::Effect effect = heard->effect;
    require((effect == Session::Effect::kInitial) == !t.asked, "the first request is initial");
    require(!overtaken || effect == Session::Effect::kStale || effect == Session::Effect::kNack,
            "a nonce of an earlier response acknowledges nothing");
    require(
        effect != Session::Effect::kAck || (t.unanswered && said.nonce == t.nonce && !said.error &&
                                            (delta() || said.version == t.version)),
        "only the newest version under the newest nonce is an ACK");
    if (delta() || !overtaken) subscribe(t, said);
    t.asked = true;
    if (overtaken) return;
    if (effect == Session::Effect::kAck || effect == Session::Effect::kNack) t.unanswered = false;
  }

  void subscribe(Type& t, const Said& said) const {
    const bool whole = carries_whole_set(said.type);
    const auto star = [&](const std::vector<std::string>& list) {
      return whole && std::find(list.begin(), list.end(), "*") != list.end();
    };
    if (!delta()) {
      t.all = whole && (said.names.empty() || star(said.names));
      t.names = {said.names.begin(), said.names.end()};
      return;
    }
    if (!t.asked) {
      t.all = whole && said.names.empty();
      for (const auto& [name, version] : said.held) t.claimed.insert(name);
    }
    for (const std::string& name : said.dropped) t.names.erase(name);
    t.names.insert(said.names.begin(), said.names.end());
    if (star(said.dropped)) t.all = false;
    if (star(said.names)) t.all = true;
  }

  // type (5: all), which names exist (a bit each), variant of their bytes.
  void change() {
    const std::size_t kind = choices_.below(6);
    const unsigned mask = choices_.byte() & 0xf;
    const int variant = static_cast<int>(choices_.below(10));
    for (const XdsType type : kXdsTypes)
      if (kind == kXdsTypes.size() || kind == index_of(type))
        sets_[index_of(type)] = set_of(type, mask, variant);
    session_.set_resources(sets_);
  }

  // Result: true if there was something to write.
  bool write() {
    const bool busy = session_.writing();
    const auto response = session_.next_response(now_);
    if (busy) {
      require(!response, "one write is in flight at a time");
      session_.on_write_done();
      return false;
    }
    if (!response) return false;
    check(*response);
    Type& t = of(response->type);
    t.version = response->version;
    t.nonce = response->nonce;
    t.unanswered = true;
    return true;
  }

  void check(const ads::Response& response) {
    const Type& t = of(response.type);
    require(t.asked, "nothing is sent of a type that was not asked for");
    require(response.nonce == std::to_string(++last_nonce_), "nonces go up by one");
    require(!response.version.empty(), "a response has a version");
    std::set<std::string> sent;
    for (const EncodedPtr& resource : response.resources) {
      require(resource->type == response.type, "a response is of one type");
      require(sent.insert(resource->name).second, "a resource is sent once", resource->name);
      // Clusters and listeners that are kept were subscribed when they were sent.
      require(t.all || (carries_whole_set(response.type) && !delta()) ||
                  t.names.contains(resource->name),
              "only what was subscribed is sent", resource->name);
    }
    for (const std::string& name : response.removed) {
      require(delta() && !sent.contains(name), "what is removed is not sent as well", name);
      require(t.all || t.names.contains(name) || t.claimed.contains(name),
              "only what was subscribed or claimed is removed", name);
    }
    check_bytes(response);
  }

  void check_bytes(const ads::Response& response) const {
    const std::string bytes = ads::serialize(response);
    require(bytes.size() == ads::response_size(response), "a response's size is known");
    const auto check_message = [&](auto parsed, const auto& version) {
      require(parsed.ParseFromString(bytes), "a response is its variant's message");
      require(version(parsed) == response.version && parsed.nonce() == response.nonce &&
                  parsed.type_url() == xds_type_url(response.type),
              "a response says what it is");
      require(static_cast<std::size_t>(parsed.resources_size()) == response.resources.size(),
              "a response holds its resources");
    };
    if (delta()) {
      check_message(envoy::service::discovery::v3::DeltaDiscoveryResponse(),
                    [](const auto& parsed) { return parsed.system_version_info(); });
    } else {
      check_message(envoy::service::discovery::v3::DiscoveryResponse(),
                    [](const auto& parsed) { return parsed.version_info(); });
    }
  }

  void acknowledge(XdsType type) {
    const Type& t = of(type);
    if (!t.unanswered) return;
    Said said{.type = type, .version = t.version, .nonce = t.nonce};
    if (!delta()) said.names = {t.names.begin(), t.names.end()};
    send(said);
  }

  bool unanswered() const {
    return std::any_of(types_.begin(), types_.end(), [](const Type& t) { return t.unanswered; });
  }

  void observe() {
    for (const XdsType type : kXdsTypes) (void)session_.state(type);
    (void)session_.doubts();
    (void)session_.deadline();
    (void)session_.emptied();
  }

  void check_settled(XdsType type) {
    const Type& t = of(type);
    if (!t.asked) return;
    const auto& base = sets_[index_of(type)];
    const auto wanted =
        t.all ? base : ads::only(base, std::vector<std::string>(t.names.begin(), t.names.end()));
    const auto held = session_.acknowledged(type);
    // No answer is due for EDS, RDS and SDS when no such resource exists.
    if (!held && wanted->empty()) return;
    require(held && held->version() == wanted->version(),
            "a proxy that acknowledges holds what it should", xds_type_text(type));
  }

  Choices& choices_;
  const XdsVariant variant_;
  ads::NameSetPool pool_;
  Session session_;
  ads::ResourceSets sets_;
  std::array<Type, kXdsTypes.size()> types_;
  std::uint64_t last_nonce_ = 0;
  bool ended_ = false;  // by a request that is none
  SteadyTime now_{std::chrono::hours(1)};
};

void run(Choices choices) {
  Stream stream(choices);
  for (int steps = 0; steps < 400 && !choices.empty() && !stream.ended(); ++steps) stream.step();
  if (!stream.ended()) stream.settle();
}

const bool kAdded = add("session", [](std::string_view input) {
  // Protobuf would print a line for every text that is not UTF-8.
  [[maybe_unused]] static const auto loud = google::protobuf::SetLogHandler(nullptr);
  run(Choices(input));
});

}  // namespace
