// Inputs made of plain values.
//
// A Values struct lists its members once, in fields(). The key covers that list, and encode() reads
// nothing else, so key and bytes always depend on the same values.
//
//   struct FooValues {
//     static constexpr XdsType kType = XdsType::kCluster;
//     static constexpr std::string_view kKind = "foo";  // two kinds never share a key
//     Port port{};
//     auto fields() const { return std::tie(port); }
//     Encoding encode(const std::string& name) const;
//   };
#pragma once

#include <algorithm>
#include <boost/pfr/core.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "osm/values/upstream_traffic_setting.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {

struct Encoding {
  std::string any;
  std::vector<EncodedResource::Reference> references;  // in any order; may repeat
};

inline void feed(DigestBuilder& digest, const std::string& text) { digest.add(text); }

template <class T>
  requires std::is_enum_v<T> || std::is_integral_v<T>
void feed(DigestBuilder& digest, T value) {
  digest.add(static_cast<std::uint64_t>(value));
}

template <class Tag>
void feed(DigestBuilder& digest, const StrongString<Tag>& text) {
  digest.add(text.str());
}

template <class Tag>
void feed(DigestBuilder& digest, const NamespacedName<Tag>& name) {
  digest.add(name.ns).add(name.name);
}

inline void feed(DigestBuilder& digest, const RoutePolicy& route);

template <class T>
  requires requires(const T& value) { value.fields(); }
void feed(DigestBuilder& digest, const T& value);

// The values of a policy, member by member.
template <class T, class... Listed>
concept OneOf = (std::is_same_v<T, Listed> || ...);
template <class T>
concept Limits = OneOf<T, ConnectionSettings, OutlierDetection, LocalRateLimit, HttpLocalRateLimit,
                       HttpRouteRateLimit, RateLimitServer, TcpGlobalRateLimit, HttpGlobalRateLimit,
                       HeaderCondition, RateLimitEntry>;

template <Limits T>
void feed(DigestBuilder& digest, const T& value);

template <class T>
void feed(DigestBuilder& digest, const std::vector<T>& values);

template <class Rep, class Period>
void feed(DigestBuilder& digest, std::chrono::duration<Rep, Period> value) {
  digest.add(static_cast<std::uint64_t>(value.count()));
}

template <class A, class B>
void feed(DigestBuilder& digest, const std::pair<A, B>& pair) {
  feed(digest, pair.first);
  feed(digest, pair.second);
}

template <class T>
void feed(DigestBuilder& digest, const std::optional<T>& value) {
  digest.add(static_cast<std::uint64_t>(value.has_value()));
  if (value) feed(digest, *value);
}

template <class T>
void feed(DigestBuilder& digest, const std::vector<T>& values) {
  digest.add(static_cast<std::uint64_t>(values.size()));
  for (const T& value : values) feed(digest, value);
}

template <Limits T>
void feed(DigestBuilder& digest, const T& value) {
  boost::pfr::for_each_field(value, [&](const auto& field) { feed(digest, field); });
}

inline void feed(DigestBuilder& digest, const RoutePolicy& route) {
  // Leave the names out: no byte depends on them.
  digest.add(route.path_regex);
  feed(digest, route.methods);
  digest.add(static_cast<std::uint64_t>(route.headers.size()));
  for (const auto& [name, regex] : route.headers) digest.add(name).add(regex);
}

template <class T>
  requires requires(const T& value) { value.fields(); }
void feed(DigestBuilder& digest, const T& value) {
  std::apply([&](const auto&... field) { (feed(digest, field), ...); }, value.fields());
}

template <class Values>
class InputOf final : public Input {
 public:
  InputOf(std::string name, Values values) : name_(std::move(name)), values_(std::move(values)) {}

  XdsType type() const override { return Values::kType; }
  const std::string& name() const override { return name_; }

  Digest key() const override {
    DigestBuilder digest;
    digest.add(Values::kKind).add(name_);
    feed(digest, values_);
    return digest.finish();
  }

  EncodedResource encode() const override {
    Encoding encoding = values_.encode(name_);
    auto& references = encoding.references;
    std::sort(references.begin(), references.end());
    references.erase(std::unique(references.begin(), references.end()), references.end());
    const Digest hash = digest_of(encoding.any);
    return {Values::kType, name_, std::move(encoding.any), hash, std::move(references)};
  }

 private:
  std::string name_;
  Values values_;
};

template <class Values>
InputPtr make_input(std::string name, Values values) {
  return std::make_unique<InputOf<Values>>(std::move(name), std::move(values));
}

}  // namespace osm::inline v1::translate
