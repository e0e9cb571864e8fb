#include "catalog/mesh_hash.hpp"

#include <set>
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

// `table` keeps equal entries of two tables apart.
template <class V>
std::uint64_t number_of(std::string_view table, const V& entry) {
  ValueDigestBuilder digest;
  digest.add(table);
  feed(digest, entry);
  return digest.finish().number();
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

// Compares the buckets of one part.
class Comparison {
 public:
  Comparison(const model::MeshDigests::Buckets& ours, const model::MeshDigests::Buckets& theirs)
      : ours_(ours), theirs_(theirs) {}

  template <class Names>
  bool same(std::string_view table, const Names& names) const {
    for (const auto& name : names) {
      const std::size_t at = model::MeshDigests::bucket_of(table, name.str());
      if (ours_[at] != theirs_[at]) return false;
    }
    return true;
  }

 private:
  const model::MeshDigests::Buckets& ours_;
  const model::MeshDigests::Buckets& theirs_;
};

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
    feed(digest, snapshot.smi_upstreams);
  };
  DigestBuilder settings;
  feed_settings(settings);
  digests_.settings = static_cast<std::uint32_t>(settings.finish().number());
  DigestBuilder digest;
  digest.add(sum_);
  feed_settings(digest);
  return digest.finish().hex().substr(0, 16);
}

bool is_same_for(const ObjectKey& object, const ObjectScope& scope, const model::MeshSnapshot& ours,
                 const model::MeshDigests& theirs) {
  const model::MeshDigests& digests = *ours.digests;
  const bool settings = object.is(kinds::kMeshConfig) || object.is(kinds::kDenylist);
  if ((settings || scope.everything) && digests.settings != theirs.settings) return false;
  if (object.is(kinds::kMeshConfig)) return true;
  if (scope.everything && digests.policies != theirs.policies) return false;
  const Comparison policies(digests.policies, theirs.policies);
  const Comparison workloads(digests.workloads, theirs.workloads);
  if (!policies.same(kServices, scope.services) || !policies.same(kPolicies, scope.identities) ||
      !policies.same(kClients, scope.identities) || !workloads.same(kWorkloads, scope.workloads))
    return false;
  // A Telemetry of these workloads may have changed.
  std::set<TelemetryName> telemetries;
  std::set<ServiceName> served;
  ObjectScope named;
  named.workloads = scope.workloads;
  for (const auto& entry : workloads_in(named, ours)) {
    if (entry->telemetry) telemetries.insert(*entry->telemetry);
    served.insert(entry->workload.services.begin(), entry->workload.services.end());
  }
  if (!policies.same(kTelemetries, telemetries)) return false;
  // Clients see a workload's change as a change of endpoints.
  return !object.is(model::kWorkloadKind) ||
         Comparison(digests.endpoints, theirs.endpoints).same(kEndpoints, served);
}

}  // namespace osm::inline v1::catalog
