// A field with one of a few fixed texts.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "spec/fields.hpp"

namespace osm::inline v1::spec {

template <class T>
struct Choice {
  std::string_view text;
  T value;
};

// The value that `field` names; `fallback` if it is absent. Any other text is refused.
template <class T, std::size_t N>
T choice_of(const Field& field, const std::array<Choice<T>, N>& choices, T fallback) {
  const auto text = field.text();
  if (!text) return fallback;
  for (const auto& choice : choices)
    if (choice.text == *text) return choice.value;
  std::string all;
  for (const auto& choice : choices) all.append(all.empty() ? "" : ", ").append(choice.text);
  field.refuse("must be one of " + all);
  return fallback;
}

}  // namespace osm::inline v1::spec
