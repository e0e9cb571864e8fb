#include "catalog/object_records.hpp"

#include <algorithm>

#include "base/maps.hpp"

namespace osm::inline v1::catalog {
bool is_read(const ObjectKey& object, const SpecSnapshot& now, const SpecSnapshot& read) {
  if (object.is(kinds::kMeshConfig)) return model::same(now.config, read.config);
  if (object.is(kinds::kNamespace)) {
    const auto has = [&](const std::vector<std::string>& namespaces) {
      return std::binary_search(namespaces.begin(), namespaces.end(), object.name);
    };
    return has(now.namespaces) == has(read.namespaces);
  }
  bool same = true;
  model::for_each_list([&](auto table) {
    if (!model::may_hold(now.*table, object)) return;
    const auto name = model::name_in(now.*table, object);
    same = model::same((now.*table).find(name), (read.*table).find(name));
  });
  return same;
}

void ObjectRecords::note(const ObjectKey& object, std::uint64_t generation, bool present,
                         std::set<model::EntryKey> before) {
  ObjectRecord& record = records_[object];
  record.generation = generation;
  record.present = present;
  record.before.merge(before);
  if (!present || !record.before.empty()) passing_.emplace_back(generation, object);
  forget(generation);
}

void ObjectRecords::note_endpoints(const std::set<ServiceName>& services,
                                   const Table<model::ServiceEndpoints>& now,
                                   std::uint64_t generation) {
  for (const ServiceName& service : services)
    put_or_erase(endpoints_, service, now.find(service) ? std::optional(generation) : std::nullopt);
}

void ObjectRecords::note_announced(const std::set<std::uint64_t>& since, std::uint64_t generation) {
  for (const std::uint64_t came : since) completed_[came] = generation;
  std::erase_if(completed_,
                [&](const auto& entry) { return entry.second + kRemembered < generation; });
}

std::uint64_t ObjectRecords::completed_in(std::uint64_t generation) const {
  const std::uint64_t* announced = find_in(completed_, generation);
  return announced ? *announced : generation;
}

void ObjectRecords::forget(std::uint64_t now) {
  while (!passing_.empty() && passing_.front().first + kRemembered < now) {
    const auto [generation, object] = passing_.front();
    passing_.pop_front();
    const auto at = records_.find(object);
    if (at == records_.end() || at->second.generation != generation) continue;  // changed meanwhile
    if (at->second.present) {
      at->second.before = {};
    } else {
      records_.erase(at);
    }
  }
}

std::optional<ObjectRecord> ObjectRecords::find(const ObjectKey& object) const {
  const ObjectRecord* known = find_in(records_, object);
  return known ? std::optional(*known) : std::nullopt;
}

ObjectRecords::Late ObjectRecords::changed_after(std::uint64_t generation) const {
  Late late;
  for (const auto& [object, record] : records_)
    if (record.generation > generation) late.objects.emplace_back(record.generation, object);
  for (const auto& [service, changed] : endpoints_)
    if (changed > generation) late.endpoints.emplace_back(changed, service);
  return late;
}

std::uint64_t ObjectRecords::endpoints_changed(const ServiceName& service) const {
  const std::uint64_t* changed = find_in(endpoints_, service);
  return changed ? *changed : 0;
}

}  // namespace osm::inline v1::catalog
