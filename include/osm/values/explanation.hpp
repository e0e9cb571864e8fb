// Explanation of one call: all that decides about it, in the order in which the call meets it, with
// the objects that do (osm policy explain). docs/troubleshoot.md says how to
// read one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/ids.hpp"
#include "osm/object.hpp"
#include "osm/values/service.hpp"

namespace osm::inline v1 {

// The call to explain. Without a word in front, names are looked up in the order given.
struct CallQuestion {
  // "account:NAMESPACE/NAME", "workload:NAMESPACE/NAME", or "gateway:ADDRESS", a caller without a
  // sidecar that dials workloads.
  std::string source;
  // "service:NAMESPACE/NAME", "account:NAMESPACE/NAME" (only what its workloads' sidecars decide),
  // or "host:NAME", a host name or an IP address.
  std::string destination;
  // The dialled port; of an account, and from a gateway, the workloads' own. 0: the only port of
  // the destination.
  Port port{};
  // For HTTP requests only.
  std::string method = "GET";
  std::string path = "/";  // with its query
  std::string host{};      // the header; empty: the destination's own name
  // Name (lower case) → value. Envoy joins the values of a header that is sent more than once by
  // commas, without blanks, in order, and so does the asker.
  std::map<std::string, std::string> headers{};
  // More lines of "cookie" than that of `headers`, in order. Envoy joins them by commas too, but
  // those of HTTP/2, as on a port of gRPC, by "; ".
  std::vector<std::string> more_cookies{};
  std::string certificate{};  // of a gateway: the name in its client certificate; empty: none
};

// Effect of one step.
enum class StepEffect {
  kAllows,  // the call goes on
  kDenies,  // the call ends here
  kNotes,   // says more about a call, and decides nothing
};
// "allows", "denies", "notes".
OSM_API std::string_view step_effect_text(StepEffect effect);

// One decision about the call, with its reason.
struct ExplainedStep {
  std::string
      stage;  // "source", "destination", "client", "host", "split", "endpoints", "server", …
  StepEffect effect = StepEffect::kNotes;
  ObjectKey object;   // that decides; an empty kind: none does, or the one that would is missing
  std::string field;  // of the object; empty: the whole of it
  std::string text;   // the reason; of a denial, with the remedy

  friend bool operator==(const ExplainedStep&, const ExplainedStep&) = default;
};

// Answer that the caller gets.
struct OSM_API CallAnswer {
  bool allowed = false;  // policy lets the call reach the workloads, or leave the mesh
  int status = 0;        // a sidecar answers this HTTP status; 0: it closes the connection

  // "policy allows the call", "403 from the sidecar", "the connection is closed"
  std::string text() const;
  friend bool operator==(const CallAnswer&, const CallAnswer&) = default;
};

// One end of the call: workloads of one account at one port, or the place where it is refused.
// Several are possible if a split, or a Service of several accounts, leaves the choice to chance.
struct OSM_API ExplainedWay {
  ServiceName service;      // empty: the call does not come as far as a Service, or leaves the mesh
  Port port{};              // of the workloads
  ServiceIdentity account;  // of the workloads; empty: it comes to none
  std::vector<std::string> addresses;  // of these workloads, ordered
  std::vector<ExplainedStep> steps;    // after those of all ways
  CallAnswer answer;
  // The `addresses` whose proxies are connected neither to this controller nor, as the other
  // replicas report every few seconds, to another one. Ordered.
  std::vector<std::string> not_connected{};

  // "policy lets the call reach 10.0.0.7:8080, whose proxy is not connected"; of a denial that of
  // `answer`.
  std::string text() const;
  friend bool operator==(const ExplainedWay&, const ExplainedWay&) = default;
};

// Verdict on all ways of a call.
enum class CallVerdict { kAllowed, kDenied, kDepends };
// "allowed", "denied", "depends".
OSM_API std::string_view call_verdict_text(CallVerdict verdict);

// The answer to a CallQuestion.
struct OSM_API Explanation {
  ServiceIdentity source;            // empty: a gateway
  bool permissive = false;           // the mesh is in permissive mode
  std::vector<ExplainedStep> steps;  // common to all ways
  std::vector<ExplainedWay> ways;    // never empty
  // Objects that are left out of the mesh, in the namespaces of source and destination: the one
  // that would decide otherwise may be among them.
  std::vector<Problem> problems;

  // kDepends: some ways are allowed, others not.
  CallVerdict verdict() const;
  friend bool operator==(const Explanation&, const Explanation&) = default;
};

}  // namespace osm::inline v1
