#include "nack_provenance/suspects.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "model/spec_tables.hpp"
#include "osm/spec/kinds.hpp"
#include "translate/translate.hpp"

namespace osm::inline v1::nack_provenance {
namespace {

constexpr std::size_t kTellingBytes = 4;  // a shorter text occurs in any sentence

bool repeats(std::string_view words, std::string_view text) {
  return text.size() >= kTellingBytes && words.find(text) != words.npos;
}

bool repeats(std::string_view words, const smi::HttpRouteGroup& group) {
  return std::ranges::any_of(group.matches, [&](const smi::HttpMatch& match) {
    return repeats(words, match.path_regex) ||
           std::ranges::any_of(match.headers, [&](const auto& header) {
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

// The objects that shape one of these entries, and the objects that they read. Of targets those
// whose destination is behind one of the Services.
std::set<ObjectKey> shaping(const std::set<model::EntryKey>& read,
                            const model::MeshSnapshot& mesh) {
  std::set<ServiceIdentity> behind;
  for (const model::EntryKey& one : read)
    if (const auto* service = std::get_if<ServiceName>(&one))
      if (const auto entry = mesh.services.find(*service))
        behind.insert(entry->identities.begin(), entry->identities.end());
  std::set<ObjectKey> out;
  for (const model::EntryKey& one : read)
    for (const auto& object : mesh.index.objects_of(one)) {
      const auto target = object->is(kinds::kTrafficTarget)
                              ? mesh.targets.find({object->ns, object->name})
                              : nullptr;
      if (target && !behind.contains(target->destination)) continue;
      out.insert(*object);
      for (ObjectKey& source : model::links_of(*object, *mesh.objects).reads)
        out.insert(std::move(source));
    }
  return out;
}

}  // namespace

bool may_be_left_out(const ObjectKey& object) {
  const spec::Kind* kind = spec::find_kind(spec::mesh_kinds(), object.group_kind());
  return kind != nullptr && kind->may_be_left_out;
}

std::set<ObjectKey> that_may_be_left_out(std::set<ObjectKey> objects) {
  std::erase_if(objects, [](const ObjectKey& object) { return !may_be_left_out(object); });
  return objects;
}

std::set<ObjectKey> shaping(const model::ProxyKey& proxy, const model::MeshSnapshot& mesh) {
  const auto entry = mesh.workloads.find(proxy);
  if (!entry) return {};
  const auto services =
      translate::services_read_by(mesh, translate::class_of(mesh, entry->workload));
  std::set<model::EntryKey> read{std::monostate(), identity_of(entry->workload.account)};
  read.insert(services.begin(), services.end());
  if (entry->telemetry) read.insert(*entry->telemetry);
  return shaping(read, mesh);
}

std::set<ObjectKey> mentioned_in(std::string_view message, const SpecSnapshot& objects) {
  std::set<ObjectKey> out;
  model::for_each_list([&](auto table) {
    for (const auto& object : objects.*table)
      if (repeats(message, *object)) out.insert(model::key_of(*object));
  });
  return out;
}

std::vector<std::size_t> order_by_likelihood(const Hints& hints, const model::MeshSnapshot& mesh,
                                             const model::ProxyKey& refusing,
                                             std::vector<ObjectKey>& candidates) {
  const std::set<ObjectKey> mentioned = mentioned_in(hints.message, *mesh.objects);
  const std::set<ObjectKey> here = shaping(refusing, mesh);
  // The cause may be an object that is never left out. It has its effect on its Services.
  std::set<model::EntryKey> limited;
  for (const auto& policy : mesh.objects->policies)
    if (!may_be_left_out(policy->key) &&
        (hints.fresh.contains(policy->key) || hints.found_elsewhere.contains(policy->key)))
      std::ranges::move(model::links_of(*policy).entries, std::inserter(limited, limited.end()));
  std::set<model::EntryKey> named;
  for (const ObjectKey& key : here)
    if (key.is(kinds::kService) &&
        (mentioned.contains(key) || hints.found_elsewhere.contains(key) ||
         limited.contains(ServiceName{key.ns, key.name})))
      named.insert(ServiceName{key.ns, key.name});
  std::set<ObjectKey> near;
  if (const auto entry = mesh.workloads.find(refusing); entry && !named.empty()) {
    named.insert({std::monostate(), identity_of(entry->workload.account)});
    near = shaping(named, mesh);
  }
  const auto rank = [&](const ObjectKey& key) {
    if (here.contains(key) && hints.fresh.contains(key)) return 3;
    return near.contains(key) ? 2 : here.contains(key) ? 1 : 0;
  };
  // Without its Service or its routes a policy has no effect, and would seem to be accepted.
  const auto adds_to_others = [&](const ObjectKey& key) {
    return !key.is(kinds::kEgress) && mesh.objects->policies.find(key) != nullptr;
  };
  std::ranges::stable_sort(candidates, {}, [&](const ObjectKey& key) {
    return std::pair(rank(key), adds_to_others(key));
  });
  std::vector<std::size_t> sizes;
  const auto others =
      std::stable_partition(candidates.begin(), candidates.end(), [&](const ObjectKey& key) {
        return key.is(kinds::kService) || !hints.found_elsewhere.contains(key);
      });
  const auto last = std::find_if(candidates.rbegin(), candidates.rend(), [&](const ObjectKey& key) {
    return !key.is(kinds::kService) && mentioned.contains(key);
  });
  if (others != candidates.end()) {
    sizes.push_back(static_cast<std::size_t>(candidates.end() - others));
  } else if (last != candidates.rend()) {
    std::rotate(candidates.rbegin(), last, last + 1);
    sizes.push_back(1);
  }
  for (const int least : {3, 2, 1}) {
    const auto first = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const ObjectKey& key) { return rank(key) >= least; });
    const auto size = static_cast<std::size_t>(candidates.end() - first);
    if (size > (sizes.empty() ? 0 : sizes.back()) && size < candidates.size())
      sizes.push_back(size);
  }
  return sizes;
}

}  // namespace osm::inline v1::nack_provenance
