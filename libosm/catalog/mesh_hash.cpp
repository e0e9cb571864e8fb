#include "catalog/mesh_hash.hpp"

#include <boost/pfr/core.hpp>
#include <cstring>
#include <type_traits>

#include "base/digest.hpp"

namespace osm::inline v1::catalog {
namespace {

// All members of a struct, so that none is forgotten when one is added.
template <class T>
void feed(DigestBuilder& digest, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    digest.add(value);
  } else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
    digest.add(static_cast<std::uint64_t>(value));
  } else if constexpr (requires { value.str(); }) {  // names
    digest.add(value.str());
  } else if constexpr (requires { typename T::period; }) {  // durations
    digest.add(static_cast<std::uint64_t>(value.count()));
  } else if constexpr (requires { value.has_value(); }) {
    digest.add(static_cast<std::uint64_t>(value.has_value()));
    if (value) feed(digest, *value);
  } else if constexpr (requires { value.use_count(); }) {  // never null in a snapshot
    feed(digest, *value);
  } else if constexpr (requires { value.begin(); }) {
    digest.add(static_cast<std::uint64_t>(value.size()));
    for (const auto& item : value) feed(digest, item);
  } else if constexpr (requires { value.first; }) {
    feed(digest, value.first);
    feed(digest, value.second);
  } else {
    boost::pfr::for_each_field(value, [&](const auto& field) { feed(digest, field); });
  }
}

std::uint64_t number_of(const DigestBuilder& digest) {
  std::uint64_t number = 0;
  std::memcpy(&number, digest.finish().bytes.data(), sizeof number);
  return number;
}

// `table` keeps equal entries of two tables apart.
template <class V>
std::uint64_t number_of(std::string_view table, const V& entry) {
  DigestBuilder digest;
  digest.add(table);
  feed(digest, entry);
  return number_of(digest);
}

std::string_view name_of(const model::ServiceEntry&) { return "service"; }
std::string_view name_of(const model::ServiceEndpoints&) { return "endpoints"; }
std::string_view name_of(const model::IdentityPolicy&) { return "policy"; }
std::string_view name_of(const model::WorkloadEntry&) { return "workload"; }
std::string_view name_of(const model::ClientPolicy&) { return "client"; }
std::string_view name_of(const model::TelemetryEntry&) { return "telemetry"; }

}  // namespace

template <class V>
void MeshHash::replace(model::Table<V>& before, const model::Table<V>& after) {
  auto a = before.begin();
  auto b = after.begin();
  while (a != before.end() || b != after.end()) {
    if (a != before.end() && b != after.end() && *a == *b) {
      ++a;
      ++b;
      continue;
    }
    const bool only_b = a == before.end() || (b != after.end() && (*b)->key() < (*a)->key());
    const bool only_a = b == after.end() || (a != before.end() && (*a)->key() < (*b)->key());
    if (!only_b) sum_ -= number_of(name_of(**a), **a), ++a;
    if (!only_a) sum_ += number_of(name_of(**b), **b), ++b;
  }
  before = after;
}

std::string MeshHash::update(const model::MeshSnapshot& snapshot) {
  replace(services_, snapshot.services);
  replace(endpoints_, snapshot.endpoints);
  replace(policies_, snapshot.policies);
  replace(workloads_, snapshot.workloads);
  replace(clients_, snapshot.clients);
  replace(telemetries_, snapshot.telemetries);
  DigestBuilder digest;
  digest.add(sum_);
  feed(digest, snapshot.config);
  feed(digest, snapshot.accepted_domains);
  feed(digest, snapshot.allowed_domains);
  feed(digest, snapshot.osm_v1_names);
  feed(digest, *snapshot.denied);
  return digest.finish().hex().substr(0, 16);
}

}  // namespace osm::inline v1::catalog
