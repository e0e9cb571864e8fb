// One ADS stream as a state machine without I/O: requests and resource sets go in, at most one
// response at a time comes out. docs/adr/0008, 0011 and 0012 explain versions, removals and
// additions.
//
// Level-triggered: for each type there is a target (what this proxy should hold of it now) and what
// it was delivered; a response is due while they differ. Every due type is answered as soon as the
// write before it is done, in the order SDS, CDS, EDS, LDS, RDS. What is asked for never waits for
// the ACK of another type, because Envoy acknowledges clusters only when SDS and EDS have warmed
// them; an unasked change of a listener or route that starts to name such clusters does (0012).
//
// Thread: one at a time (the hub's strand).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ads/resource_set.hpp"
#include "ads/wire.hpp"
#include "osm/clock.hpp"
#include "osm/proxy.hpp"

namespace osm::ads {

// What one class of proxies holds: by XdsType, secrets included. A null set is not known yet.
using ResourceSets = std::array<ResourceSetPtr, kXdsTypes.size()>;
constexpr std::size_t index_of(XdsType type) { return static_cast<std::size_t>(type); }

// Types of which the proxy may hold something else than it acknowledged: the last stream ended with
// a response unanswered or refused. Outlives the session, per proxy certificate.
using Doubts = std::array<bool, kXdsTypes.size()>;

class Session {
 public:
  // How long removed clusters are kept for listeners and routes that are not acknowledged.
  static constexpr std::chrono::seconds kExpandedBound{10};
  // How long listeners and routes that start to name new clusters wait for those to be warm.
  static constexpr std::chrono::seconds kWarmingBound{5};

  explicit Session(NameSetPool& pool, const Doubts& doubts = {}) : pool_(pool), doubts_(doubts) {}

  // What a request turned out to be.
  enum class Effect { kUnknownType, kInitial, kStale, kSubscription, kAck, kNack };
  Effect on_request(const Request& request);

  // The newest sets; they replace those before. Pointer-equal sets cost nothing.
  void set_resources(const ResourceSets& sets);

  // The response to write now; none while one is being written or nothing is due.
  std::optional<Response> next_response(SteadyTime now);
  void on_write_done() { writing_ = false; }
  bool writing() const { return writing_; }

  // All clusters or listeners vanished. That is never pushed: the stream is to be closed, and the
  // proxy gets the empty set when it reconnects and asks. Looked at after next_response().
  bool emptied() const { return emptied_; }

  // Something changes by itself at this time: call next_response() then.
  std::optional<SteadyTime> deadline() const;

  ProxyTypeState state(XdsType type) const;
  // Everything subscribed is acknowledged, nothing is due or withheld.
  bool settled() const;
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

  struct TypeState {
    bool subscribed = false;
    bool asked = false;     // CDS, LDS: a first request is to be answered even with nothing
    bool awaiting = false;  // the last response is unanswered
    bool overtaken_nack =
        false;               // a response before the last was refused: resend once it is answered
    bool uncertain = false;  // after a NACK, until the next ACK: what the proxy holds is unknown
    NameSetPtr names;        // null: all of them
    Digest raw_names;        // of the request's own order, to tell repetitions without sorting
    std::optional<std::string> claim;  // version of the first request, not judged yet
    std::string announced;             // version of the last response or of a believed claim
    std::string nonce;                 // of the last response
    ResourceSetPtr base;               // of the class: the newest inputs
    ResourceSetPtr delivered;          // what the proxy needs not be sent again
    ResourceSetPtr sent;               // what it holds once it accepts the last response
    ResourceSetPtr acked;
    ResourceSetPtr good;               // acknowledged before a NACK: stands in for what was refused
    std::string sent_base;             // version of the inputs of the last response
    std::string refused_base;          // CDS, LDS: version of the inputs that were refused
    std::vector<Responded> responded;  // EDS, RDS, SDS: the last response, until it is answered
    std::vector<Refusal> refusals;     // the same types: refused responses
    std::string nack_detail;
    std::optional<SteadyTime> sent_at;
    std::optional<SteadyTime> held_since;  // LDS, RDS: changes wait for clusters to be warm
    // Memo of the target without NACKs and expansion.
    ResourceSetPtr wanted_base;
    NameSetPtr wanted_names;
    ResourceSetPtr wanted;
  };

  TypeState& of(XdsType type) { return types_[index_of(type)]; }
  const TypeState& of(XdsType type) const { return types_[index_of(type)]; }

  // Result: whether the names are other ones than before.
  bool subscribe(XdsType type, const Request& request);
  void on_ack(XdsType type);
  void on_nack(XdsType type, std::string_view detail);
  void judge_claim(XdsType type);

  static const ResourceSetPtr& wanted(TypeState& s);
  bool withheld(XdsType type) const;
  ResourceSetPtr target(XdsType type, SteadyTime now);
  ResourceSetPtr expanded(const ResourceSetPtr& base, SteadyTime now);
  NameSet clusters_in_use() const;
  void note_warming(const ResourceSet& goal);
  ResourceSetPtr held_back(XdsType type, const ResourceSetPtr& goal, SteadyTime now);
  std::optional<Response> due(XdsType type, SteadyTime now);
  Response respond(XdsType type, const ResourceSetPtr& target, std::vector<EncodedPtr> resources,
                   SteadyTime now);
  void undeliver_dependants(XdsType type, const ResourceSet& goal);

  NameSetPool& pool_;
  Doubts doubts_;
  std::array<TypeState, kXdsTypes.size()> types_;
  std::array<bool, kXdsTypes.size()> skipped_{};  // a claim was believed, nothing sent
  std::uint64_t last_nonce_ = 0;
  bool writing_ = false;
  bool emptied_ = false;
  // CDS: removed clusters are kept since then, for this base.
  std::optional<SteadyTime> expanded_since_;
  ResourceSetPtr expanded_base_;
  // CDS: sent since the last answer, and not there before. Ordered.
  NameSet warming_;
  bool sent_expanded_ = false;     // the last CDS response kept removed clusters
  std::string expansion_refused_;  // version of the inputs for which that was refused
};

}  // namespace osm::ads
