#include "nack_provenance/refusal_words.hpp"

#include <algorithm>
#include <set>

namespace osm::inline v1::nack_provenance {
namespace {

constexpr std::size_t kTellingBytes = 4;  // a shorter text occurs in any sentence

bool repeats(std::string_view words, std::string_view text) {
  return text.size() >= kTellingBytes && words.find(text) != words.npos;
}

bool repeats(std::string_view words, const smi::HttpRouteGroup& group) {
  return std::any_of(group.matches.begin(), group.matches.end(), [&](const smi::HttpMatch& match) {
    return repeats(words, match.path_regex) ||
           std::any_of(match.headers.begin(), match.headers.end(), [&](const auto& header) {
             return repeats(words, header.first) || repeats(words, header.second);
           });
  });
}
bool repeats(std::string_view words, const smi::TrafficTarget& target) {
  return repeats(words, target.name.str());
}
bool repeats(std::string_view words, const Service& service) {
  return repeats(words, service.name.str()) || repeats(words, service_fqdn(service.name));
}
bool repeats(std::string_view words, const smi::TrafficSplit& split) {
  return repeats(words, service_fqdn(split.service));
}
bool repeats(std::string_view, const smi::TcpRoute&) { return false; }
bool repeats(std::string_view words, const Policy& policy) {
  return repeats(words, policy.key.name);
}

}  // namespace

bool move_mentioned_last(std::string_view words, const model::SpecObjects& objects,
                         std::vector<ObjectKey>& candidates) {
  std::set<ObjectKey> mentioned;
  model::for_each_list([&](auto list, auto) {
    for (const auto& object : objects.*list)
      if (repeats(words, *object)) mentioned.insert(model::key_of(*object));
  });
  const auto last = std::find_if(candidates.rbegin(), candidates.rend(),
                                 [&](const ObjectKey& key) { return mentioned.contains(key); });
  if (last == candidates.rend()) return false;
  std::rotate(candidates.rbegin(), last, last + 1);
  return true;
}

}  // namespace osm::inline v1::nack_provenance
