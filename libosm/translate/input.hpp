// Inputs made of plain values.
//
// A Values struct is an aggregate. The key covers all members, and encode() reads nothing else. So
// a value that no byte shows must not be a member, nor a member of one.
//
//   struct FooValues {
//     static constexpr XdsType kType = XdsType::kCluster;
//     static constexpr std::string_view kKind = "foo";  // two kinds never share a key
//     Port port{};
//     Encoding encode(const std::string& name) const;
//   };
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/feed.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::translate {

struct Encoding {
  std::string any;
  std::vector<EncodedResource::Reference> references;  // in any order; may repeat
};

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
