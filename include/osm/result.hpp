// Errors are values: osm::Result<T> holds a T or an osm::Error, and [[nodiscard]] makes the caller
// check it. No exception leaves the library. Codes are stable text (docs/error-codes.md lists
// them). Messages name the object, the field and the remedy, and never hold a secret.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "osm/detail/api.hpp"

namespace osm::inline v1 {

// Stable: a code keeps its meaning and its text (error_code_text) for ever.
enum class ErrorCode {
  // Objects and files; the object is left out.
  kInvalidSyntax,        // the file is not YAML or JSON
  kUnknownKind,          // an apiVersion/kind the mesh does not know
  kInvalidField,         // a field is missing, of the wrong type, or out of its range
  kUnusedField,          // a field is understood but has no effect
  kDuplicateObject,      // the same kind, namespace and name twice
  kDanglingReference,    // names an object that is not there
  kCrossNamespace,       // affects a namespace that it may not affect
  kInvalidRegex,         // does not compile or is too costly
  kInvalidWeights,       // a split whose weights are negative or sum to zero
  kConflictingProtocol,  // two protocols on one target port
  kConflictingAddress,   // two objects claim one address, or two services one port or host name
  kAddressNotAllotted,   // the namespace may not claim the address
  kTooLarge,             // deeper or larger than the bound
  kUnreadableSource,     // a file or directory cannot be read; its last good content stays
  kRefusedByProxy,       // Envoy refuses its configuration; left out until it changes
  kLimitResets,          // a rate limit may begin anew before its unit of time ends
  // Proxies and certificates.
  kUnknownProxy,          // no workload has this proxy UUID in this namespace
  kIdentityMismatch,      // the certificate's account is not the workload's
  kWrongCertificateKind,  // a certificate that is not a proxy certificate
  kCertificateExpired,    // the certificate or its CA has expired
  kRootEnding,            // a root CA of the mesh ends soon
  kInvalidCertificate,    // key material that cannot be parsed, does not match, or is not a CA
  // Callers, stores and networks.
  kNotFound,          // no such proxy, service, account or object
  kAlreadyExists,     // an object of that name is there already
  kConflict,          // it was changed since it was read; read it again
  kGone,              // that version is too old to continue from; read everything again
  kInvalidArgument,   // an argument is invalid; the message says why
  kNotReady,          // the mesh has not been read completely yet
  kUnavailable,       // try again later
  kDeadlineExceeded,  // the deadline passed first
  kPermissionDenied,  // the caller may not do this
  kStorage,           // disk full, unreadable, wrong mode
  kInternal,          // a defect of this library, or of one it uses
};

// "dangling-reference": the stable text of a code, used in logs, metrics, status and the CLI.
OSM_API std::string_view error_code_text(ErrorCode code);

// Weight of a problem with an object, by its code.
enum class Severity {
  kError,    // something that was asked for does not happen: somebody has to act
  kWarning,  // it happens in part, or may be about to: a reference to what may still come, a choice
             // between two, a limit by the hour
  kNotice,   // nothing is wrong: a part has no effect here
};
// The severity of problems with the code.
OSM_API Severity severity_of(ErrorCode code);
// "error", "warning", "notice": in metrics, status and the CLI.
OSM_API std::string_view severity_text(Severity severity);

// A failure: a stable code, and a message for people.
struct OSM_API Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  // "dangling-reference: TrafficTarget bookstore/buyer: ..."
  std::string text() const;
  // The same error, its message prefixed with "<what>: ".
  Error with_context(std::string_view what) const;

  friend bool operator==(const Error&, const Error&) = default;
};

namespace detail {
// Prints the misuse, with the error's text, to standard error and ends the process.
[[noreturn]] OSM_API void value_of_error(const Error& error);
// Prints the misuse to standard error and ends the process.
[[noreturn]] OSM_API void error_of_success();
}  // namespace detail

// A T, or the error in place of one. Moved from like its value. Thread: one at a time.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  // True if there is a value.
  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  // Precondition of value access: ok(). Otherwise the process ends with the error's text.
  T& value() & { return (check_value(), *std::get_if<0>(&state_)); }
  const T& value() const& { return (check_value(), *std::get_if<0>(&state_)); }
  T&& value() && { return (check_value(), std::move(*std::get_if<0>(&state_))); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  // The value, or `fallback`. No precondition.
  T value_or(T fallback) const& { return ok() ? value() : std::move(fallback); }

  // Precondition: !ok(). Otherwise the process ends.
  const Error& error() const& { return (check_error(), *std::get_if<1>(&state_)); }
  Error&& error() && { return (check_error(), std::move(*std::get_if<1>(&state_))); }

 private:
  void check_value() const {
    if (!ok()) detail::value_of_error(*std::get_if<1>(&state_));
  }
  void check_error() const {
    if (ok()) detail::error_of_success();
  }

  std::variant<T, Error> state_;
};

// Success, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  // A failure.
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  // True on success.
  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  // Precondition: !ok(). Otherwise the process ends.
  const Error& error() const& { return (check_error(), *error_); }
  Error&& error() && { return (check_error(), std::move(*error_)); }

 private:
  void check_error() const {
    if (ok()) detail::error_of_success();
  }

  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace osm::inline v1

#define OSM_CONCAT_IMPL_(a, b) a##b
#define OSM_CONCAT_(a, b) OSM_CONCAT_IMPL_(a, b)

// OSM_TRY(auto x, f());   x is f's value, or the enclosing function returns f's error.
// OSM_TRY(f());           The enclosing function returns f's error, if there is one.
#define OSM_TRY(...) OSM_TRY_SELECT_(__VA_ARGS__, OSM_TRY_VALUE_, OSM_TRY_STATUS_, )(__VA_ARGS__)
#define OSM_TRY_SELECT_(first, second, chosen, ...) chosen
#define OSM_TRY_VALUE_(declaration, expression) \
  OSM_TRY_IMPL_(OSM_CONCAT_(osm_try_, __LINE__), declaration, expression)
#define OSM_TRY_IMPL_(temporary, declaration, expression)   \
  auto temporary = (expression);                            \
  if (!temporary.ok()) return std::move(temporary).error(); \
  declaration = std::move(temporary).value()
#define OSM_TRY_STATUS_(expression) \
  OSM_TRY_STATUS_IMPL_(OSM_CONCAT_(osm_try_, __LINE__), expression)
#define OSM_TRY_STATUS_IMPL_(temporary, expression)                                          \
  do {                                                                                       \
    if (auto temporary = (expression); !temporary.ok()) return std::move(temporary).error(); \
  } while (false)
