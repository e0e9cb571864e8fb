// AdmissionReview (admission.k8s.io/v1), in and out: what the two webhooks share. Pure.
//
// What arrives is an API server's, but made of what anybody wrote: size, depth and the number of
// values are bounded before anything is kept, and what a decision throws never leaves.
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
#include "osm/result.hpp"

namespace osm::inline v1::inject {

// An API server takes objects of 3 MB; an update brings the old one along.
inline constexpr std::size_t kMaxReviewBytes = 7 * 1024 * 1024;
inline constexpr std::size_t kMaxReviewDepth = 66;  // an object's 64, inside "request"
inline constexpr std::size_t kMaxReviewValues = 200'000;

struct AdmissionRequest {
  std::string uid;        // of this request; the response repeats it
  std::string operation;  // "CREATE", "UPDATE", "DELETE", "CONNECT"
  std::string group;      // of the object's kind; empty: core
  std::string version;
  std::string kind;
  std::string ns;    // empty: cluster-scoped. An object in creation may lack its own.
  std::string name;  // empty: the server has still to generate one
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
  int code = 200;         // of the refusal, as HTTP's
  std::string message{};  // of the refusal: what is wrong and what to do, shown to whoever asked
  std::vector<std::string> warnings{};   // shown by kubectl; each is cut at 256 bytes
  boost::json::array patch{};            // JSON Patch (RFC 6902); empty: as it is
  std::vector<AdmissionCause> causes{};  // of the refusal

  // 403 for kPermissionDenied, 422 for what is wrong with an object, 503 for what may pass, ...
  static AdmissionResponse refused(const Error& error);
};

// Failure: kTooLarge, kInvalidSyntax, kInvalidField naming the field.
Result<AdmissionRequest> parse_admission_review(std::string_view body);

// The review that answers the request `uid`.
std::string admission_review(std::string_view uid, const AdmissionResponse& response);

using Decide = std::function<AdmissionResponse(const AdmissionRequest&)>;

// 400 for an empty body; else 200 with what `decide` makes of the review, or with a refusal of the
// same uid, as far as it can be read, when it is none.
AdmissionAnswer answer_admission(std::string_view body, const Decide& decide);

}  // namespace osm::inline v1::inject
