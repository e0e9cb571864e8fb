// Messages of name servers → records: no input ends the process, every address is a literal, every
// host can be asked for, and the number of records is bounded.
//
//   input: 'a', '6' or 's' for A, AAAA or SRV, then the message.

#include <algorithm>

#include "dns/answer.hpp"
#include "fuzz/fuzz.hpp"
#include "model/ip_address.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

void run(std::span<const unsigned char> input) {
  if (input.empty()) return;
  const dns::RecordType type = input[0] == 's'   ? dns::RecordType::kSrv
                               : input[0] == '6' ? dns::RecordType::kAaaa
                                                 : dns::RecordType::kA;
  const dns::Answer answer = dns::read_answer(type, input.subspan(1));
  require(
      answer.outcome == dns::Outcome::kAnswered ? !answer.records.empty() : answer.records.empty(),
      "an answer has records");
  require(answer.records.size() <= dns::kMaxRecords, "records are bounded");
  require(answer.ttl.count() >= 0, "a TTL is not negative");
  require(std::is_sorted(answer.records.begin(), answer.records.end()), "records are ordered");
  for (const dns::Record& record : answer.records) {
    if (type == dns::RecordType::kSrv) {
      require(dns::question_of("A:" + record.target).has_value(), "a host can be asked for");
      require(record.port != 0, "a port can be dialled");
    } else {
      require(type == dns::RecordType::kA ? model::is_ipv4(record.target)
                                          : model::is_ipv6(record.target),
              "an address is a literal", record.target);
    }
  }
}

const bool kAdded = add("dns_answer", [](std::string_view input) {
  run({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
});

}  // namespace
