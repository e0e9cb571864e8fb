#include "spec/first_seen.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

constexpr GroupKind kWithAddresses[] = {kinds::kService, kinds::kVirtualMachine,
                                        kinds::kDnsResource, kinds::kAzureResource};

// "Service shop/api": as ObjectKey::str() has it for these kinds.
std::optional<ObjectKey> key_in(std::string_view text) {
  const auto space = text.find(' ');
  const auto slash = text.find('/', space == text.npos ? text.size() : space);
  if (slash == text.npos) return std::nullopt;
  const auto kind = std::find_if(
      std::begin(kWithAddresses), std::end(kWithAddresses),
      [&](const GroupKind& candidate) { return candidate.kind == text.substr(0, space); });
  if (kind == std::end(kWithAddresses)) return std::nullopt;
  return ObjectKey{*kind, std::string(text.substr(space + 1, slash - space - 1)),
                   std::string(text.substr(slash + 1))};
}

}  // namespace

Status FirstSeen::read(std::string_view text) {
  if (text.empty()) return {};
  const Error damaged{ErrorCode::kInvalidSyntax, "is no record of the order of objects"};
  boost::system::error_code fault;
  const json::value document = json::parse(text, fault);
  if (fault || !document.is_object() || member(document, "looks") == nullptr) return damaged;
  std::map<ObjectKey, std::uint64_t> places;
  std::uint64_t look = 0;
  for (const json::value& objects : list_at(document, "looks")) {
    ++look;
    if (!objects.is_array()) return damaged;
    for (const json::value& object : objects.get_array()) {
      const auto* name = object.if_string();
      const auto key = name == nullptr ? std::nullopt : key_in(*name);
      if (!key) return damaged;
      places.emplace(*key, look);
    }
  }
  places_ = std::move(places);
  look_ = look + 1;
  return {};
}

// The looks in order, without those that no object is left of: places are relative.
std::string FirstSeen::text() const {
  std::map<std::uint64_t, std::vector<std::string>> looks;
  for (const auto& [key, place] : places_) looks[place].push_back(key.str());
  constexpr std::string_view kBegin = "{\"looks\":[", kEnd = "\n]}\n";
  std::string out(kBegin);
  for (const auto& [place, objects] : looks) {
    std::string one(out.size() == kBegin.size() ? "\n[" : ",\n[");
    for (const std::string& object : objects)
      one.append(one.back() == '[' ? "" : ",").append(json::serialize(json::value(object)));
    one += ']';
    if (out.size() + one.size() + kEnd.size() > kMaxText) break;
    out += one;
  }
  return out.append(kEnd);
}

std::uint64_t FirstSeen::place_of(const ObjectKey& key) {
  const bool counts = std::any_of(std::begin(kWithAddresses), std::end(kWithAddresses),
                                  [&](const GroupKind& kind) { return key.is(kind); });
  if (!counts) return 0;
  const auto [at, fresh] = places_.try_emplace(key, look_);
  used_ |= fresh;
  changed_ |= fresh;
  return at->second;
}

std::shared_ptr<const Object> FirstSeen::placed(std::shared_ptr<const Object> object) {
  const std::uint64_t place = place_of(object->key);
  if (place == object->created.order) return object;
  auto made = std::make_shared<Object>(*object);
  made->created.order = place;
  return made;
}

void FirstSeen::forget(const ObjectKey& key) { changed_ |= places_.erase(key) > 0; }

bool FirstSeen::end_look() {
  look_ += std::exchange(used_, false) ? 1 : 0;
  return std::exchange(changed_, false);
}

}  // namespace osm::inline v1::spec
