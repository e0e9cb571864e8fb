// Common parts of all decoders.
#pragma once

#include <boost/json/value.hpp>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/values/egress.hpp"
#include "spec/decode.hpp"
#include "spec/fields.hpp"

namespace osm::inline v1::spec {

// "must be a DNS label (...)": the texts for bad names.
inline constexpr const char* kNotALabel =
    "must be a DNS label: lower-case letters, digits and '-', at most 63";
inline constexpr const char* kNotASubdomain =
    "must be a DNS name: lower-case letters, digits, '-' and '.', at most 253";

enum class NameRule { kLabel, kSubdomain };

// Gives access to the object's fields, and checks the common fields of namespaced kinds.
class ObjectReader {
 public:
  ObjectReader(const Object& object, NameRule rule);

  Findings& findings() { return findings_; }
  Field root() { return {object_.document.get(), "", findings_}; }

  template <class T>
  Decoded<T> finish(T value) && {
    Decoded<T> decoded;
    if (findings_.valid()) decoded.value = std::move(value);
    decoded.problems = std::move(findings_).take(object_.key);
    return decoded;
  }
  template <class T>
  DecodedPolicy finish_policy(T value) && {
    DecodedPolicy decoded;
    if (findings_.valid())
      decoded.value = std::make_shared<const Policy>(object_.key, std::move(value));
    decoded.problems = std::move(findings_).take(object_.key);
    return decoded;
  }

 private:
  const Object& object_;
  Findings findings_;
};

// The DNS label in `field`. Absence and invalid text are refused.
std::string required_label(const Field& field);
std::string required_subdomain(const Field& field);
// A DNS name of a host, in its one form. Absence and other text are refused.
std::string required_dns_name(const Field& field);
// The name of an account that can be an identity. Absence and other text are refused.
std::string required_account_name(const Field& field);
// The IPv4 network in `field`, "10.0.0.0/8". Absence and other text are refused.
std::string required_network(const Field& field);
// The same as numbers, without host bits: "10.1.2.3/8" becomes 10.0.0.0/8.
Ipv4Network network_of(const Field& field);
// Namespace and name of an object of `kind`, from a map with these and the kind. Another kind is
// refused: "must be <kind><why>".
std::pair<std::string, std::string> required_reference(const Field& field, const GroupKind& kind,
                                                       std::string_view why = "");
// The account in `field`, whose sidecars an object of `kind` in the namespace `ns` concerns. An
// account of another namespace is refused.
ServiceIdentity own_account(const Field& field, std::string_view kind, const std::string& ns);

// The place in `words` of the text in `field`; nullopt if it is absent. Any other text is refused.
std::optional<std::size_t> choice_of(const Field& field,
                                     const std::vector<std::string_view>& words);
// The value of the word in `field`; `fallback` if it is absent or refused.
template <class T>
T choice_of(const Field& field, std::initializer_list<std::pair<std::string_view, T>> choices,
            T fallback) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : choices) words.push_back(word);
  const auto at = choice_of(field, words);
  return at ? choices.begin()[*at].second : fallback;
}

// Parses Go's duration text: "48h", "1h30m", "1.5h". Nullopt: invalid or negative.
// https://pkg.go.dev/time#ParseDuration
std::optional<double> seconds_of(std::string_view text);
struct DurationRule {
  std::chrono::milliseconds least{}, most{};
  std::string_view text;  // "from 1ms to 1m, such as 500ms"
};
// The duration in `field`; nullopt if it is absent or refused: "must be a duration <text>".
std::optional<std::chrono::milliseconds> duration_of(const Field& field, const DurationRule& rule);
// True if the text consists of ASCII letters, digits and `marks`.
bool consists_of(std::string_view text, std::string_view marks);
// The host in `field`: an IP address, or a DNS name in its one form. Absent: empty. Other text is
// refused, the empty one too.
std::string host_of(const Field& field);
// A token of RFC 9110: "x-user", never empty.
bool is_header_name(std::string_view text);

// Limit for the RE2 programs of all expressions of one object: every concerned proxy compiles them.
inline constexpr int kMaxObjectProgram = 50'000;
// Refuses an expression that cannot be used. `cost`: sum over the object's expressions so far.
// Beyond the limit no more expressions are compiled. An expression that does not compile also has a
// cost, since finding that out takes time.
void check_regex(const Field& field, const std::string& regex, int& cost);

// Parts of decode_mesh_config() in another file: the sections that affect sidecars.
SidecarConfig sidecar_of(const Field& sidecar);         // spec.sidecar
TlsSettings tls_settings_of(const Field& sidecar);      // the TLS fields of spec.sidecar
HeaderLimits header_limits_of(const Field& headers);    // spec.sidecar.headers
TrafficExclusions exclusions_of(const Field& traffic);  // spec.traffic

}  // namespace osm::inline v1::spec
