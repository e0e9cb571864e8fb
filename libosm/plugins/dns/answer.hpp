// The records of one answer of a name server.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "endpoint/resolution_table.hpp"
#include "machines/dns_resource.hpp"

namespace osm::inline v1::dns {

// kNoData: the name exists without such a record. kNotFound: NXDOMAIN. kRefused: a server answered
// with an error, or with bytes that are no answer.
using endpoint::Outcome;
// "answered", "no-data", ...: for metrics.
std::string_view outcome_text(Outcome outcome);

struct Record {
  std::string target;  // an address literal, or an SRV record's host in lower case
  // For SRV records.
  std::uint16_t port = 0;
  std::uint16_t priority = 0;
  std::uint16_t weight = 0;

  friend auto operator<=>(const Record&, const Record&) = default;
};

struct Answer {
  Outcome outcome = Outcome::kSilent;
  std::vector<Record> records{};  // ordered, unique; at most kMaxRecords
  std::chrono::seconds ttl{0};    // the least of the records
};

inline constexpr std::size_t kMaxRecords = 1000;

// Reads a message of a name server whose response code is "no error".
Answer read_answer(RecordType type, std::span<const unsigned char> message);

}  // namespace osm::inline v1::dns
