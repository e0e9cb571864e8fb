#include "osm/result.hpp"

#include "base/check.hpp"

namespace osm::inline v1 {

std::string_view error_code_text(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidSyntax:
      return "invalid-syntax";
    case ErrorCode::kUnknownKind:
      return "unknown-kind";
    case ErrorCode::kInvalidField:
      return "invalid-field";
    case ErrorCode::kUnusedField:
      return "unused-field";
    case ErrorCode::kDuplicateObject:
      return "duplicate-object";
    case ErrorCode::kDanglingReference:
      return "dangling-reference";
    case ErrorCode::kCrossNamespace:
      return "cross-namespace";
    case ErrorCode::kInvalidRegex:
      return "invalid-regex";
    case ErrorCode::kInvalidWeights:
      return "invalid-weights";
    case ErrorCode::kConflictingProtocol:
      return "conflicting-protocol";
    case ErrorCode::kConflictingAddress:
      return "conflicting-address";
    case ErrorCode::kTooLarge:
      return "too-large";
    case ErrorCode::kUnreadableSource:
      return "unreadable-source";
    case ErrorCode::kRefusedByProxy:
      return "refused-by-proxy";
    case ErrorCode::kUnknownProxy:
      return "unknown-proxy";
    case ErrorCode::kIdentityMismatch:
      return "identity-mismatch";
    case ErrorCode::kWrongCertificateKind:
      return "wrong-certificate-kind";
    case ErrorCode::kCertificateExpired:
      return "certificate-expired";
    case ErrorCode::kInvalidCertificate:
      return "invalid-certificate";
    case ErrorCode::kNotFound:
      return "not-found";
    case ErrorCode::kAlreadyExists:
      return "already-exists";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kGone:
      return "gone";
    case ErrorCode::kInvalidArgument:
      return "invalid-argument";
    case ErrorCode::kNotReady:
      return "not-ready";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kDeadlineExceeded:
      return "deadline-exceeded";
    case ErrorCode::kPermissionDenied:
      return "permission-denied";
    case ErrorCode::kStorage:
      return "storage";
    case ErrorCode::kInternal:
      return "internal";
  }
  check_failed("a known ErrorCode", __FILE__, __LINE__);
}

namespace detail {

void value_of_error(const Error& error) {
  const std::string text = "value() of a Result that holds an error: " + error.text();
  process_must_end(text.c_str());
}

void error_of_success() { process_must_end("error() of a Result or Status without an error"); }

}  // namespace detail

std::string Error::text() const { return std::string(error_code_text(code)) + ": " + message; }

Error Error::with_context(std::string_view what) const {
  return {code, std::string(what) + ": " + message};
}

}  // namespace osm::inline v1
