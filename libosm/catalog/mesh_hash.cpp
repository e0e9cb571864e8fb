#include "catalog/mesh_hash.hpp"

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/digest.hpp"
#include "base/feed.hpp"

namespace osm::inline v1::catalog {
namespace {

// Leaves origins out: replicas compare the values, and not the names of the objects and providers
// that made them.
struct ValueDigestBuilder : DigestBuilder {
  friend void feed(ValueDigestBuilder&, const model::Origin&) {}
  friend void feed(ValueDigestBuilder&, const model::ProviderNames&) {}
};

std::uint64_t number_of(const DigestBuilder& digest) {
  std::uint64_t number = 0;
  std::memcpy(&number, digest.finish().bytes.data(), sizeof number);
  return number;
}

// `table` keeps equal entries of two tables apart.
template <class V>
std::uint64_t number_of(std::string_view table, const V& entry) {
  ValueDigestBuilder digest;
  digest.add(table);
  feed(digest, entry);
  return number_of(digest);
}

constexpr std::string_view kServices = "service", kEndpoints = "endpoints", kPolicies = "policy",
                           kWorkloads = "workload", kClients = "client", kTelemetries = "telemetry";

std::string_view name_of(const model::ServiceEntry&) { return kServices; }
std::string_view name_of(const model::ServiceEndpoints&) { return kEndpoints; }
std::string_view name_of(const model::IdentityPolicy&) { return kPolicies; }
std::string_view name_of(const model::WorkloadEntry&) { return kWorkloads; }
std::string_view name_of(const model::ClientPolicy&) { return kClients; }
std::string_view name_of(const model::TelemetryEntry&) { return kTelemetries; }

std::string bucket_name(const model::WorkloadEntry& entry) { return entry.workload.name.str(); }
template <class V>
std::string bucket_name(const V& entry) {
  return entry.key().str();
}

template <class V>
std::uint32_t& bucket(model::MeshDigests& digests, const V& entry) {
  auto& buckets = std::is_same_v<V, model::WorkloadEntry>      ? digests.workloads
                  : std::is_same_v<V, model::ServiceEndpoints> ? digests.endpoints
                                                               : digests.policies;
  return buckets[model::MeshDigests::bucket_of(name_of(entry), bucket_name(entry))];
}

}  // namespace

template <class V>
void MeshHash::replace(Table<V>& before, const Table<V>& after) {
  using Entry = typename Table<V>::Entry;
  Table<V>::compare(before, after, [this](const Entry& old, const Entry& now) {
    if (old) {
      const std::uint64_t number = number_of(name_of(*old), *old);
      sum_ -= number;
      bucket(digests_, *old) -= static_cast<std::uint32_t>(number);
    }
    if (now) {
      const std::uint64_t number = number_of(name_of(*now), *now);
      sum_ += number;
      bucket(digests_, *now) += static_cast<std::uint32_t>(number);
    }
  });
  before = after;
}

std::string MeshHash::update(const model::MeshSnapshot& snapshot) {
  replace(services_, snapshot.services);
  replace(endpoints_, snapshot.endpoints);
  replace(policies_, snapshot.policies);
  replace(workloads_, snapshot.workloads);
  replace(clients_, snapshot.clients);
  replace(telemetries_, snapshot.telemetries);
  const auto feed_settings = [&](DigestBuilder& digest) {
    feed(digest, snapshot.config);
    feed(digest, snapshot.accepted_domains);
    feed(digest, snapshot.allowed_domains);
    feed(digest, snapshot.osm_v1_names);
    feed(digest, *snapshot.denied);
  };
  DigestBuilder settings;
  feed_settings(settings);
  digests_.settings = static_cast<std::uint32_t>(number_of(settings));
  DigestBuilder digest;
  digest.add(sum_);
  feed_settings(digest);
  return digest.finish().hex().substr(0, 16);
}

bool is_same_for(const ObjectKey& object, const std::set<model::EntryKey>& entries,
                 const model::MeshSnapshot& ours, const model::MeshDigests& theirs) {
  using Digests = model::MeshDigests;
  const Digests& digests = *ours.digests;
  const bool everything = entries.contains(model::EntryKey());
  const bool settings = object.is(kinds::kMeshConfig) || object.is(kinds::kDenylist);
  if ((settings || everything) && digests.settings != theirs.settings) return false;
  if (object.is(kinds::kMeshConfig)) return true;
  if (everything && digests.policies != theirs.policies) return false;
  bool same = true;
  const auto compare = [&](Digests::Buckets Digests::*part, std::string_view table,
                           const auto& name) {
    const std::size_t at = Digests::bucket_of(table, name.str());
    same &= (digests.*part)[at] == (theirs.*part)[at];
  };
  for (const model::EntryKey& key : entries) {
    if (const auto* service = std::get_if<ServiceName>(&key))
      compare(&Digests::policies, kServices, *service);
    if (const auto* identity = std::get_if<ServiceIdentity>(&key))
      for (const std::string_view table : {kPolicies, kClients})
        compare(&Digests::policies, table, *identity);
    if (const auto* workload = std::get_if<WorkloadName>(&key))
      compare(&Digests::workloads, kWorkloads, *workload);
  }
  for (const auto& entry : ours.workloads) {
    if (!entries.contains(entry->workload.name)) continue;
    // A Telemetry of these workloads may have changed.
    if (entry->telemetry) compare(&Digests::policies, kTelemetries, *entry->telemetry);
    // Clients see a workload's change as a change of endpoints.
    if (object.is(model::kWorkloadKind))
      for (const ServiceName& service : entry->workload.services)
        compare(&Digests::endpoints, kEndpoints, service);
  }
  return same;
}

}  // namespace osm::inline v1::catalog
