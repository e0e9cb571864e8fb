// One ADS stream as a state machine without I/O: requests and resource sets go in, at most one
// response at a time comes out. docs/adr/0008, 0011 and 0012 explain versions, removals and
// additions; 0013 what the two variants of xDS share.
//
// Level-triggered: for each type there is a target (what this proxy should hold of it now) and what
// it was delivered; a response is due while they differ. Every due type is answered as soon as the
// write before it is done, in the order SDS, CDS, EDS, LDS, RDS. What is asked for never waits for
// the ACK of another type, because Envoy acknowledges clusters only when SDS and EDS have warmed
// them; an unasked change of a listener or route that starts to name such clusters does (0012).
//
// The variant decides how a request changes the subscription, what a first request claims, what a
// refusal refuses, and how a difference becomes a response: session_sotw.cpp, session_delta.cpp.
// All else is theirs in common: session_targets.cpp (what the proxy should hold), session.cpp.
//
// Thread: one at a time (the hub's strand).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ads/resource_set.hpp"
#include "ads/wire.hpp"
#include "osm/clock.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

// What one class of proxies holds: by XdsType, secrets included. A null set is not known yet.
using ResourceSets = std::array<ResourceSetPtr, kXdsTypes.size()>;
constexpr std::size_t index_of(XdsType type) { return static_cast<std::size_t>(type); }

// The proxy may hold something else than it acknowledged: its last stream ended with a response
// unanswered or refused. Outlives the session, per proxy certificate.
struct Doubt {
  bool unsure = false;
  NameSet unclaimed;  // delta: names it may hold without saying so

  friend bool operator==(const Doubt&, const Doubt&) = default;
};
using Doubts = std::array<Doubt, kXdsTypes.size()>;

class Session {
 public:
  // How long removed clusters are kept for listeners and routes that are not acknowledged.
  static constexpr std::chrono::seconds kExpandedBound{10};
  // How long listeners and routes that start to name new clusters wait for those to be warm.
  static constexpr std::chrono::seconds kWarmingBound{5};

  Session(XdsVariant variant, NameSetPool& pool, const Doubts& doubts = {})
      : variant_(variant), pool_(pool), doubts_(doubts) {}

  // What a request turned out to be.
  enum class Effect { kUnknownType, kInitial, kStale, kSubscription, kAck, kNack };
  // Views into the message.
  struct Heard {
    Effect effect{};
    std::string_view type_url;
    std::optional<XdsType> type;  // none: not one of the mesh's
    std::optional<std::string_view> error;
    std::optional<SteadyTime> sent_at;  // kAck, kNack: of the response it answers
  };
  // Failure: kInvalidArgument (no request of this variant, or too many names): end the stream.
  Result<Heard> on_message(std::string_view bytes);
  // The same, read already.
  Effect on_request(const Request& request);
  Result<Effect> on_request(const DeltaRequest& request);

  // The newest sets; they replace those before. Pointer-equal sets cost nothing.
  void set_resources(const ResourceSets& sets);

  // The response to write now; none while one is being written or nothing is due.
  std::optional<Response> next_response(SteadyTime now);
  void on_write_done() { writing_ = false; }
  bool writing() const { return writing_; }

  // All clusters or listeners vanished. That is never pushed: the stream is to be closed, and the
  // proxy is told when it reconnects and asks. Looked at after next_response().
  bool emptied() const { return emptied_; }

  // Something changes by itself at this time: call next_response() then.
  std::optional<SteadyTime> deadline() const;

  XdsVariant variant() const { return variant_; }
  ProxyTypeState state(XdsType type) const;
  // Everything subscribed is acknowledged, nothing is due or withheld.
  bool settled() const;
  // A response has not been answered yet.
  bool unanswered() const;
  // Something is subscribed of a type, and acknowledged in its newest content.
  bool holds_newest(XdsType type) const;
  Doubts doubts() const;

  // For the config dump; null: none.
  ResourceSetPtr sent(XdsType type) const { return of(type).sent; }
  ResourceSetPtr acknowledged(XdsType type) const { return of(type).acked; }

 private:
  // A resource that was sent, and the hash its input had then (a stand-in's is another).
  struct Responded {
    EncodedPtr resource;
    Digest input;
  };
  // Envoy names no culprit, so a refused response is withheld as a whole: until one of its inputs
  // changes.
  struct Refusal {
    std::vector<Responded> response;
    bool holds_for(const ResourceSet& base) const;
  };
  // What a first request says the proxy holds already.
  struct Claim {
    std::string version;                                       // SotW
    std::map<std::string, std::string, std::less<>> versions;  // delta: by name
  };

  struct TypeState {
    bool subscribed = false;
    bool wildcard = false;  // CDS, LDS: all there is; else, or beside it, `names`
    bool asked = false;     // CDS, LDS: a first request is to be answered even with nothing
    bool awaiting = false;  // the last response is unanswered
    bool overtaken_nack =
        false;               // a response before the last was refused: resend once it is answered
    bool uncertain = false;  // after a NACK, until the next ACK: what the proxy holds is unknown
    NameSetPtr names;        // from the first request on
    std::optional<Claim> claim;  // of the first request, not judged yet
    std::string announced;       // version of the last response or of a believed claim
    std::string nonce;           // of the last response
    ResourceSetPtr base;         // of the class: the newest inputs
    ResourceSetPtr delivered;    // what the proxy needs not be sent again
    ResourceSetPtr sent;         // what it holds once it accepts the last response
    ResourceSetPtr acked;
    ResourceSetPtr good;               // acknowledged before a NACK: stands in for what was refused
    ResourceSetPtr lingering;          // RDS: left the set, and may still be named by a listener
    std::string sent_base;             // version of the inputs of the last response
    std::vector<Responded> responded;  // the last response, until it is answered
    std::vector<Refusal> refusals;     // of refused responses
    std::string nack_detail;
    std::optional<SteadyTime> sent_at;
    std::optional<SteadyTime> held_since;  // LDS, RDS: changes wait for clusters to be warm
    // SotW only.
    Digest raw_names;          // of the request's own order, to tell repetitions without sorting
    std::string refused_base;  // CDS, LDS: version of the inputs that were refused
    // Delta only.
    NameSet leftovers;   // what the proxy may hold beyond `sent`
    NameSet unanswered;  // names in responses that it has not answered
    NameSet owed;        // asked for: if there is no such resource, the proxy is told so
    // Memo of the target without NACKs and expansion.
    ResourceSetPtr wanted_base;
    NameSetPtr wanted_names;
    ResourceSetPtr wanted;
  };

  TypeState& of(XdsType type) { return types_[index_of(type)]; }
  const TypeState& of(XdsType type) const { return types_[index_of(type)]; }

  // What both variants do with requests: session.cpp.
  void begin(XdsType type, Claim claim);
  void on_ack(XdsType type);
  void on_nack(XdsType type, std::string_view detail);
  void on_overtaken_nack(XdsType type);
  static void keep_only_subscribed(TypeState& s);
  static bool awaits(const TypeState& s);
  std::optional<Response> due(XdsType type, SteadyTime now);
  Response respond(XdsType type, const ResourceSetPtr& goal, std::vector<EncodedPtr> resources,
                   SteadyTime now);
  void undeliver_dependants(XdsType type, const ResourceSet& goal);
  void undeliver(XdsType type, const NameSet& names);

  // session_sotw.cpp. Result: whether the names are other ones than before.
  bool subscribe(XdsType type, const Request& request);
  void refuse_sotw(XdsType type);
  void judge_sotw(XdsType type);
  std::optional<Response> due_sotw(XdsType type, const ResourceSetPtr& goal, SteadyTime now);

  // session_delta.cpp
  Status subscribe(XdsType type, const DeltaRequest& request);
  void refuse_delta(XdsType type);
  void judge_delta(XdsType type);
  std::optional<Response> due_delta(XdsType type, const ResourceSetPtr& goal, SteadyTime now);
  NameSet gone(XdsType type, const ResourceSet& goal) const;

  // session_targets.cpp
  static const ResourceSetPtr& wanted(TypeState& s);
  bool refused_as_a_whole(XdsType type) const;
  bool withheld(XdsType type) const;
  void end_refusals(TypeState& s);
  ResourceSetPtr target(XdsType type, SteadyTime now);
  ResourceSetPtr acceptable(XdsType type);
  ResourceSetPtr expanded(const ResourceSetPtr& base, SteadyTime now);
  NameSet clusters_in_use() const;
  void note_warming(const ResourceSet& goal);
  ResourceSetPtr held_back(XdsType type, const ResourceSetPtr& goal, SteadyTime now);

  const XdsVariant variant_;
  NameSetPool& pool_;
  Doubts doubts_;
  std::array<TypeState, kXdsTypes.size()> types_;
  std::uint64_t last_nonce_ = 0;
  bool writing_ = false;
  bool emptied_ = false;
  // CDS: removed clusters are kept since then, for this base.
  std::optional<SteadyTime> expanded_since_;
  std::string expanded_base_;
  // CDS: sent since the last answer, and not there before.
  NameSet warming_;
  // SotW only.
  std::array<bool, kXdsTypes.size()> skipped_{};  // a claim was believed, nothing sent
  bool sent_expanded_ = false;                    // the last CDS response kept removed clusters
  std::string expansion_refused_;  // version of the inputs for which that was refused
  // Delta only: what clusters wait for, sent before their endpoints were asked for.
  NameSet rewarmed_;
};

// CDS and LDS: a proxy holds all there are, unless it names some.
constexpr bool is_whole(XdsType type) {
  return type == XdsType::kCluster || type == XdsType::kListener;
}

// The names of `type` that `resources` refer to.
NameSet references(const std::vector<EncodedPtr>& resources, XdsType type);

}  // namespace osm::inline v1::ads
