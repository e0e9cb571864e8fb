// Digests of a snapshot's content by parts, so that replicas see whether they hold the same content
// for some proxies, though other parts differ for the moment. See catalog/mesh_hash.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/digest.hpp"

namespace osm::inline v1::model {

struct MeshDigests {
  static constexpr std::size_t kBuckets = 256;
  // Each bucket is the sum of the digests of its entries, which their names choose.
  using Buckets = std::array<std::uint32_t, kBuckets>;

  Buckets policies{};          // services, policies, clients and telemetries
  Buckets workloads{};         // by workload
  Buckets endpoints{};         // by service
  std::uint32_t settings = 0;  // MeshConfig, trust domains, denials

  static std::size_t bucket_of(std::string_view table, std::string_view name) {
    return DigestBuilder().add(table).add(name).finish().bytes[0];
  }

  friend bool operator==(const MeshDigests&, const MeshDigests&) = default;
};

}  // namespace osm::inline v1::model
