// AdmissionReview (admission.k8s.io/v1), request and response: common parts of the two webhooks.
// Pure.
//
// The request comes from an API server but contains user input. Size, depth and number of values
// are limited before anything is kept, and exceptions of a decision do not leave this room.
// https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/inject/admission.hpp"
#include "osm/metrics.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::inject {

inline constexpr Counter kAdmissionWebhookResponse{"osm_admission_webhook_response_total",
                                                   "Answers of the webhooks, by kind of object",
                                                   {"kind", "success"}};

// An API server accepts objects of 3 MB; an update also contains the old object.
inline constexpr std::size_t kMaxReviewBytes = 7 * 1024 * 1024;
inline constexpr std::size_t kMaxReviewDepth = 66;  // a file's 64, inside "request"
inline constexpr std::size_t kMaxReviewValues = 200'000;

struct AdmissionRequest {
  std::string uid;        // identifies the request; the response repeats it
  std::string operation;  // "CREATE", "UPDATE", "DELETE", "CONNECT"
  std::string group;      // group of the object's kind; empty: core
  std::string version;
  std::string kind;
  std::string ns;    // empty: cluster-scoped. A new object may lack its own namespace.
  std::string name;  // empty: the server generates one later
  std::string user;  // name of the user who made the request, as the server authenticated them
  bool dry_run = false;
  boost::json::object object;      // empty at DELETE
  boost::json::object old_object;  // empty at CREATE
};

// One fault of the object: status.details.causes.
struct AdmissionCause {
  std::string field;  // "spec.rules[0].kind"; empty: the whole object
  std::string message;
};

struct AdmissionResponse {
  bool allowed = true;
  int code = 200;         // HTTP status of the refusal
  std::string message{};  // message of the refusal, shown to the user: the fault and the remedy
  std::vector<std::string> warnings{};   // shown by kubectl; each is cut at 256 bytes
  boost::json::array patch{};            // JSON Patch (RFC 6902); empty: no change
  std::vector<AdmissionCause> causes{};  // causes of the refusal

  // 403 for kPermissionDenied, 422 for faults of an object, 503 for errors that may pass, ...
  static AdmissionResponse refused(const Error& error);
};

// The review with the response to the request `uid`.
std::string admission_review(std::string_view uid, const AdmissionResponse& response);

using Decide = std::function<AdmissionResponse(const AdmissionRequest&)>;

// 400 for an empty body; else 200 with the response of `decide`. A body that is no review is
// refused with its uid, if that can be read.
AdmissionAnswer answer_admission(std::string_view body, const Decide& decide);

}  // namespace osm::inline v1::inject
