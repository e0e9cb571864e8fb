// DNSResource (workload.openservicemesh.io/v1alpha1), decoded, and the resolver's ids.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "machines/machine.hpp"
#include "osm/detail/api.hpp"

namespace osm::inline v1::dns {

enum class RecordType { kA, kAaaa, kSrv };

struct Question {
  RecordType type = RecordType::kA;
  std::string name;  // normal_dns_name()

  friend auto operator<=>(const Question&, const Question&) = default;
};

// "SRV:_http._tcp.shop.example"
OSM_API std::string id_of(const Question& question);
// Nullopt: no such id.
OSM_API std::optional<Question> question_of(std::string_view id);
OSM_API std::string_view text_of(RecordType type);

OSM_API machines::DecodedMachine decode_dns_resource(const Object& object);

}  // namespace osm::inline v1::dns
