#include "osm/result.hpp"

#include <iterator>

#include "base/check.hpp"

namespace osm::inline v1 {

namespace {

// In the order of ErrorCode.
constexpr std::pair<ErrorCode, std::string_view> kCodes[] = {
    {ErrorCode::kInvalidSyntax, "invalid-syntax"},
    {ErrorCode::kUnknownKind, "unknown-kind"},
    {ErrorCode::kInvalidField, "invalid-field"},
    {ErrorCode::kUnusedField, "unused-field"},
    {ErrorCode::kDuplicateObject, "duplicate-object"},
    {ErrorCode::kDanglingReference, "dangling-reference"},
    {ErrorCode::kCrossNamespace, "cross-namespace"},
    {ErrorCode::kInvalidRegex, "invalid-regex"},
    {ErrorCode::kInvalidWeights, "invalid-weights"},
    {ErrorCode::kConflictingProtocol, "conflicting-protocol"},
    {ErrorCode::kConflictingAddress, "conflicting-address"},
    {ErrorCode::kAddressNotAllotted, "address-not-allotted"},
    {ErrorCode::kTooLarge, "too-large"},
    {ErrorCode::kUnreadableSource, "unreadable-source"},
    {ErrorCode::kRefusedByProxy, "refused-by-proxy"},
    {ErrorCode::kLimitResets, "limit-resets"},
    {ErrorCode::kUnknownProxy, "unknown-proxy"},
    {ErrorCode::kIdentityMismatch, "identity-mismatch"},
    {ErrorCode::kWrongCertificateKind, "wrong-certificate-kind"},
    {ErrorCode::kCertificateExpired, "certificate-expired"},
    {ErrorCode::kRootEnding, "root-ending"},
    {ErrorCode::kInvalidCertificate, "invalid-certificate"},
    {ErrorCode::kNotFound, "not-found"},
    {ErrorCode::kAlreadyExists, "already-exists"},
    {ErrorCode::kConflict, "conflict"},
    {ErrorCode::kGone, "gone"},
    {ErrorCode::kInvalidArgument, "invalid-argument"},
    {ErrorCode::kNotReady, "not-ready"},
    {ErrorCode::kUnavailable, "unavailable"},
    {ErrorCode::kDeadlineExceeded, "deadline-exceeded"},
    {ErrorCode::kPermissionDenied, "permission-denied"},
    {ErrorCode::kStorage, "storage"},
    {ErrorCode::kInternal, "internal"},
};
static_assert([] {
  for (std::size_t i = 0; i < std::size(kCodes); ++i)
    if (static_cast<std::size_t>(kCodes[i].first) != i) return false;
  return std::size(kCodes) == static_cast<std::size_t>(ErrorCode::kInternal) + 1;
}());

}  // namespace

std::string_view error_code_text(ErrorCode code) {
  const auto at = static_cast<std::size_t>(code);
  OSM_CHECK(at < std::size(kCodes));
  return kCodes[at].second;
}

Severity severity_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnusedField:
      return Severity::kNotice;
    case ErrorCode::kDuplicateObject:
    case ErrorCode::kDanglingReference:
    case ErrorCode::kLimitResets:
    case ErrorCode::kRootEnding:
      return Severity::kWarning;
    default:
      return Severity::kError;
  }
}

std::string_view severity_text(Severity severity) {
  switch (severity) {
    case Severity::kWarning:
      return "warning";
    case Severity::kNotice:
      return "notice";
    case Severity::kError:
      break;
  }
  return "error";
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
