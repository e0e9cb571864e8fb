// One ADS stream as a state machine without I/O. Requests and resource sets go in; at most one
// response at a time comes out. docs/adr/0008 explains versions, 0012 additions and 0013
// the common parts of the two xDS variants; docs/internals/decisions.md explains removals.
//
// The session is level-triggered. For each type there is a target (the content that this proxy
// should have now) and the delivered content; a response is due while they differ. Every due type
// is answered as soon as the previous write is done, in the order SDS, CDS, EDS, LDS, RDS. A
// requested resource never waits for the ACK of another type, because Envoy acknowledges clusters
// only after SDS and EDS have warmed them. An unrequested change of a listener or route that starts
// to name such clusters waits (0012).
//
// The variant decides how a request changes the subscription, what a first request claims, what a
// refusal refuses, and how a difference becomes a response: session_sotw.cpp, session_delta.cpp.
// A type has the state of one variant only. The rest is common: session_targets.cpp (the target
// content), session.cpp.
//
// Thread: one at a time (the hub's strand).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ads/resource_set.hpp"
#include "ads/wire.hpp"
#include "osm/clock.hpp"
#include "osm/values/proxy.hpp"

namespace osm::inline v1::ads {

// Content of one class of proxies, by XdsType, with secrets. A null set is not known yet.
using ResourceSets = std::array<ResourceSetPtr, kXdsTypes.size()>;
constexpr std::size_t index_of(XdsType type) { return static_cast<std::size_t>(type); }

// The proxy may hold something else than it claims. Kept per proxy certificate, longer than the
// session.
struct Doubt {
  bool unsure = false;  // its last stream ended with an unanswered or refused response
  NameSet unclaimed;    // delta: names that it may hold and does not claim

  friend bool operator==(const Doubt&, const Doubt&) = default;
};
using Doubts = std::array<Doubt, kXdsTypes.size()>;

// State of a type that only SotW has.
struct SotwState {
  Digest raw_names;  // hash in the request's own order, to detect repetitions without sorting
  std::string refused_base;  // CDS, LDS: version of the refused inputs
  bool skipped = false;      // a claim was believed, nothing sent
};

// State of a type that only delta has.
struct DeltaState {
  NameSet leftovers;   // names that the proxy may hold beyond `sent`
  NameSet unanswered;  // names in unanswered responses
  NameSet owed;        // requested names; a missing one is answered as removed
};

class Session {
 public:
  // Time for which removed clusters are kept for unacknowledged listeners and routes, on this
  // stream and from the one before.
  static constexpr std::chrono::seconds kExpandedBound{10};
  // Time for which listeners and routes wait until a cluster that they start to name is warm, and
  // added endpoints until a change of their cluster is.
  static constexpr std::chrono::seconds kWarmingBound{5};
  // Time for which one of them waits at most, for clusters that come one after another. Removed
  // clusters are kept for longer.
  static constexpr std::chrono::seconds kHeldBound{8};
  static_assert(kWarmingBound <= kHeldBound && kHeldBound < kExpandedBound);

  Session(XdsVariant variant, NameSetPool& pool, const Doubts& doubts = {})
      : variant_(variant), pool_(pool), doubts_(doubts) {
    if (variant == XdsVariant::kDelta)
      for (TypeState& s : types_) s.own.emplace<DeltaState>();
  }

  // A request may have so many names beyond twice the class's without any excess.
  static constexpr std::size_t kSpareNames = 64;

  // Meaning of a request.
  enum class Effect { kUnknownType, kInitial, kStale, kSubscription, kAck, kNack };
  // Views into the message.
  struct Heard {
    Effect effect{};
    std::string_view type_url;
    std::optional<XdsType> type;  // none: not a type of the mesh
    std::optional<std::string_view> error;
    std::optional<SteadyTime> sent_at;  // kAck, kNack: time of the answered response
    std::size_t excess = 0;             // its names beyond twice those of the class
  };
  // Handles a message. Failure: kInvalidArgument (no request of this variant, or too many names):
  // end the stream.
  Result<Heard> on_message(std::string_view bytes);
  // Handles a parsed request.
  Effect on_request(const Request& request);
  Result<Effect> on_request(const DeltaRequest& request);

  // Delta: these endpoints are sent even if the proxy's first request claims them.
  void doubt_endpoints(const NameSet& names) { rewarmed_ = joined(rewarmed_, names); }

  // Replaces the target sets. Pointer-equal sets cost nothing.
  void set_resources(const ResourceSets& sets);

  // The response to write now; none if one is being written or none is due. `generation`: the
  // mesh's, of the newest sets; 0: the sets are not the mesh's.
  std::optional<Response> next_response(SteadyTime now, std::uint64_t generation = 0);
  void on_write_done() { writing_ = false; }
  bool writing() const { return writing_; }

  // All clusters or listeners vanished. An empty set is never pushed: the caller closes the stream,
  // and the proxy gets the empty set when it reconnects and asks. Check it after next_response().
  bool emptied() const { return emptied_; }

  // Time at which to call next_response() again without any event.
  std::optional<SteadyTime> deadline() const;

  XdsVariant variant() const { return variant_; }
  ProxyTypeState state(XdsType type) const;
  // True if everything subscribed is acknowledged and nothing is due or withheld.
  bool settled() const;
  // True if a response has not been answered yet.
  bool unanswered() const;
  bool subscribed(XdsType type) const { return of(type).subscribed(); }
  // True if everything of the type is acknowledged and nothing is withheld or held back.
  // Precondition: no response is due.
  bool at_rest(XdsType type) const;
  // The newest generation of which it acknowledged a response with everything of the type, also
  // while later ones are unanswered.
  std::uint64_t confirmed(XdsType type) const { return of(type).confirmed; }
  // True if the proxy subscribes to something of the type and acknowledged its newest content.
  bool holds_newest(XdsType type) const;
  Doubts doubts() const;

  // Content that the proxy keeps of what it refuses: acknowledged, or good before a refusal.
  ResourceSetPtr last_good(XdsType type) const;
  // True if the newest content has the resource frozen (translate::EncodedResource).
  bool frozen(XdsType type, std::string_view name) const;

  // Sent resources, for the config dump; null: none.
  ResourceSetPtr sent(XdsType type) const { return of(type).sent; }
  const ResourceSetPtr& given(XdsType type) const { return of(type).base; }  // by set_resources()
  ResourceSetPtr acknowledged(XdsType type) const { return of(type).acked; }

 private:
  // A sent resource, and the hash of its input at that time (a stand-in has another hash).
  struct Responded {
    EncodedPtr resource;
    Digest input;
  };
  // A refused response. Envoy does not name the refused resource, so the whole response is withheld
  // until one of its inputs changes.
  struct Refusal {
    std::vector<Responded> response;
    bool holds_for(const ResourceSet& base) const;
  };
  // A response before the last one, not answered yet.
  struct Overtaken {
    std::string nonce;
    ResourceSetPtr content;  // the proxy's after it accepts
    std::uint64_t generation;
    SteadyTime sent_at;
  };
  // Names of which the proxy has not answered the first response that had them.
  struct Sent {
    SteadyTime at;
    std::uint64_t response;  // number of the first one that has them
    NameSet names;
  };
  using SentNames = std::vector<Sent>;  // oldest first; no name twice, no empty set
  // A resource that waits, with the newest generation whose content of it was sent; 0: not known.
  struct Hold {
    SteadyTime since;
    std::uint64_t complete;
  };
  // Every second one is forgotten when there are so many.
  static constexpr std::size_t kMaxOvertaken = 16;
  // Content that the first request claims.
  struct Claim {
    std::string version;                                       // SotW
    std::map<std::string, std::string, std::less<>> versions;  // delta: by name
  };

  struct TypeState {
    bool subscribed() const { return names != nullptr; }
    bool wildcard = false;  // CDS, LDS: subscribed to all; else, or in addition, to `names`
    bool asked = false;  // CDS, LDS: a first request is answered even if there is nothing to send
    bool awaiting = false;        // the last response is unanswered
    bool overtaken_nack = false;  // a response before the last one was refused: send again after
                                  // the last one is answered
    bool uncertain = false;      // after a NACK, until the next ACK: the proxy's content is unknown
    NameSetPtr names;            // null until the first request
    std::optional<Claim> claim;  // claim in the first request, not checked yet
    std::string announced;       // version of the last response or of a believed claim
    std::string nonce;           // nonce of the last response
    ResourceSetPtr base;         // the newest inputs of the class
    ResourceSetPtr delivered;    // content that need not be sent again
    ResourceSetPtr sent;         // its content after it accepts the last response
    ResourceSetPtr acked;
    ResourceSetPtr good;       // acknowledged before a NACK; replaces refused resources
    ResourceSetPtr lingering;  // RDS: removed from the set, but a listener may still name them
    std::string sent_base;     // version of the inputs that a refusal of the last response is of
    std::vector<Responded> responded;  // the last response, until it is answered
    std::vector<Refusal> refusals;     // refused responses
    std::string nack_detail;
    std::optional<SteadyTime> sent_at;
    std::map<std::string, Hold, std::less<>> held;  // EDS, LDS, RDS: waits for warm clusters
    std::uint64_t sent_generation = 0;  // the newest one of which all is sent, or waits; 0: none
    std::vector<Overtaken> overtaken;   // oldest first
    std::uint64_t generation = 0;       // of the last response; 0: it withholds something
    std::uint64_t confirmed = 0;
    NameSet passed_clusters;  // LDS, RDS: names in unanswered responses that the next one dropped
    NameSet passed_routes;    // LDS: likewise
    std::variant<SotwState, DeltaState> own;  // that of variant_
    // Cache of the target without NACKs and expansion.
    ResourceSetPtr wanted_base;
    NameSetPtr wanted_names;
    ResourceSetPtr wanted;
  };

  TypeState& of(XdsType type) { return types_[index_of(type)]; }
  const TypeState& of(XdsType type) const { return types_[index_of(type)]; }

  // Precondition: the session is of this variant.
  SotwState& sotw(XdsType type) { return std::get<SotwState>(of(type).own); }
  DeltaState& delta(XdsType type) { return std::get<DeltaState>(of(type).own); }
  // Empty in SotW.
  static const DeltaState& delta_part(const TypeState& s);

  // Common handling of requests: session.cpp.
  void begin(XdsType type, Claim claim);
  void on_ack(XdsType type);
  void on_nack(XdsType type, std::string_view detail);
  void on_overtaken_nack(XdsType type);
  void on_overtaken_ack(XdsType type, std::string_view nonce, std::string_view version);
  static void keep_overtaken(TypeState& s);
  void note_passed(XdsType type, const ResourceSetPtr& goal);
  bool unasked(XdsType type) const;
  std::size_t excess(const std::optional<XdsType>& type, std::size_t names) const;
  static void keep_only_subscribed(TypeState& s);
  static bool awaits(const TypeState& s);
  std::optional<Response> due(XdsType type, SteadyTime now);
  Response respond(XdsType type, const ResourceSetPtr& goal, std::vector<EncodedPtr> resources,
                   SteadyTime now);
  void undeliver_dependants(XdsType type, const ResourceSet& goal);
  void undeliver(XdsType type, const NameSet& names);

  // session_sotw.cpp. Result: true if the names changed.
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
  static bool leaves_over(const TypeState& s);
  bool keeps_leftovers(SteadyTime now);

  // session_targets.cpp
  static const ResourceSetPtr& wanted(TypeState& s);
  bool refused_as_a_whole(XdsType type) const;
  bool withheld(XdsType type) const;
  void end_refusals(TypeState& s);
  ResourceSetPtr target(XdsType type, SteadyTime now);
  ResourceSetPtr acceptable(XdsType type);
  static ResourceSetPtr thawed(const TypeState& s, const ResourceSetPtr& set);
  ResourceSetPtr expanded(const ResourceSetPtr& base, SteadyTime now);
  ResourceSetPtr with_used_endpoints(const ResourceSetPtr& base);
  void keep_promised_endpoints();
  NameSet clusters_in_use() const;
  bool knows_users();
  void note_warming(const ResourceSet& goal, SteadyTime now);
  void end_warming(std::uint64_t response);
  void expire_warming(SteadyTime now);
  void forget_former_endpoints();
  static bool contains_name(const SentNames& sent, std::string_view name);
  static void keep_names(SentNames& sent, const std::function<bool(const std::string&)>& stays);
  ResourceSetPtr held_back(XdsType type, const ResourceSetPtr& goal, SteadyTime now);
  std::vector<EncodedPtr> former_versions(XdsType type, const ResourceSet& goal, NameSet& unknown);
  std::vector<EncodedPtr> former_endpoints(const ResourceSet& goal);

  const XdsVariant variant_;
  NameSetPool& pool_;
  Doubts doubts_;
  std::array<TypeState, kXdsTypes.size()> types_;
  std::uint64_t last_nonce_ = 0;
  std::uint64_t generation_ = 0;  // of next_response()
  bool writing_ = false;
  bool emptied_ = false;
  // CDS: start of keeping removed clusters for this base.
  std::optional<SteadyTime> expanded_since_;
  std::string expanded_base_;
  // CDS: clusters that the proxy did not have before, until it answers a response that has them.
  // EDS: names in clusters that were changed, likewise. And what was made of two versions of one:
  // it is made once.
  SentNames warming_, changing_;
  struct FormerEndpoints {
    EncodedPtr fresh, former;
  };
  std::map<std::string, FormerEndpoints> former_endpoints_;
  bool sent_expanded_ = false;     // the last CDS response kept removed clusters
  std::string expansion_refused_;  // version of the inputs for which the kept clusters were refused
  // Delta only: result of with_used_endpoints(), and what it was made from.
  struct {
    ResourceSetPtr base, sent, clusters, result;
  } used_endpoints_;
  // Delta only: the proxy held something when the stream began. Its request for clusters comes last
  // while some of them warm.
  bool resumed_ = false;
  std::optional<SteadyTime> resumed_at_;
  bool awaits_clusters_ = false;  // not for longer than kWarmingBound
  // True once it is known what the listeners and routes of a proxy that reconnected name.
  bool users_known_ = true;
  // Delta only: start of keeping clusters that the last stream left over.
  std::optional<SteadyTime> leftovers_since_;
  // Delta only: endpoints that clusters wait for, or may wait for, though they are claimed.
  NameSet rewarmed_;
  // Delta only: endpoints, as they were, of clusters that were sent before any endpoints.
  ResourceSetPtr promised_;
};

// CDS and LDS: a proxy holds all resources, unless it names some.
constexpr bool is_whole(XdsType type) {
  return type == XdsType::kCluster || type == XdsType::kListener;
}

// The names of `type` that `resources` refer to.
NameSet references(const std::vector<EncodedPtr>& resources, XdsType type);

}  // namespace osm::inline v1::ads
