// Common parts of all decoders.
#pragma once

#include <boost/json/value.hpp>
#include <utility>

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

 private:
  const Object& object_;
  Findings findings_;
};

// The DNS label in `field`. Absence and invalid text are refused.
std::string required_label(const Field& field);
std::string required_subdomain(const Field& field);

// The parts of decode_policy(), one per kind; `spec` is a map.
CheckedPolicy check_egress(const Field& spec);
CheckedPolicy check_ingress_backend(const Field& spec);
CheckedPolicy check_retry(const Field& spec);
CheckedPolicy check_upstream_traffic_setting(const Field& spec);

}  // namespace osm::inline v1::spec
