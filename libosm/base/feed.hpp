// Digests of values. Boost.PFR finds the members of a struct, so that a new one cannot be
// forgotten.
#pragma once

#include <boost/pfr/core.hpp>
#include <cstdint>
#include <string>
#include <type_traits>

#include "base/digest.hpp"

namespace osm::inline v1 {

// Adds the value to the digest: a struct as its members, in their order, and a name as its text. A
// struct must be an aggregate without bases. Any other type without a case here does not compile.
// Precondition: no shared pointer is null.
// `Builder`: DigestBuilder, or a class that derives from it and has overloads for some types.
template <class Builder, class T>
void feed(Builder& digest, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    digest.add(value);
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    digest.add(static_cast<std::uint64_t>(value));
  } else if constexpr (requires { value.str(); } && !std::is_aggregate_v<T>) {  // one text
    digest.add(value.str());
  } else if constexpr (requires { typename T::period; }) {  // durations
    digest.add(static_cast<std::uint64_t>(value.count()));
  } else if constexpr (requires { value.has_value(); }) {
    digest.add(static_cast<std::uint64_t>(value.has_value()));
    if (value) feed(digest, *value);
  } else if constexpr (requires { value.use_count(); }) {
    feed(digest, *value);
  } else if constexpr (requires { value.begin(); }) {
    digest.add(static_cast<std::uint64_t>(value.size()));
    for (const auto& item : value) feed(digest, item);
  } else if constexpr (requires { typename T::first_type; }) {  // pairs
    feed(digest, value.first);
    feed(digest, value.second);
  } else {
    static_assert(std::is_class_v<T> && std::is_aggregate_v<T>, "feed() cannot see all of it");
    boost::pfr::for_each_field(value, [&](const auto& field) { feed(digest, field); });
  }
}

}  // namespace osm::inline v1
