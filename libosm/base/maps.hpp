// Maps: look-ups and changes in one step.
#pragma once

#include <optional>
#include <utility>

namespace osm::inline v1 {

// The value of `key`; null: there is none. Lifetime: until the map changes.
template <class Map, class Key>
auto* find_in(Map& map, const Key& key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

// The value of `key`; an empty one if there is none.
template <class Map, class Key>
typename Map::mapped_type value_in(const Map& map, const Key& key) {
  const auto* const value = find_in(map, key);
  return value ? *value : typename Map::mapped_type();
}

// Sets the value of `key`; nullopt removes it. Result: true if that changed the map.
template <class Map>
bool put_or_erase(Map& map, const typename Map::key_type& key,
                  std::optional<typename Map::mapped_type> value) {
  if (!value) return map.erase(key) > 0;
  auto* known = find_in(map, key);
  if (known && *known == *value) return false;
  map.insert_or_assign(key, *std::move(value));
  return true;
}

// Removes `member` from the set of `key`; an empty set goes, too.
template <class Map, class Key, class Member>
void remove_member(Map& sets, const Key& key, const Member& member) {
  const auto at = sets.find(key);
  if (at != sets.end() && at->second.erase(member) > 0 && at->second.empty()) sets.erase(at);
}

}  // namespace osm::inline v1
