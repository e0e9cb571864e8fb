// Rounds of questions to name servers, over c-ares.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dns/answer.hpp"
#include "osm/providers/resource_resolver.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::dns {

using Answers = std::map<Question, Answer>;
// Asks all questions at once. Result: an answer for each. Blocking: until the last answer, the
// deadline, or until `ended` is true.
using Ask =
    std::function<Answers(const std::set<Question>& questions, const std::atomic<bool>& ended)>;

struct LookupOptions {
  std::vector<std::string> servers;  // empty: the system's
  std::chrono::milliseconds timeout;
  std::chrono::milliseconds deadline;
};

// Failure: kInvalidArgument, with the server that is none.
Status check_servers(const std::vector<std::string>& servers);
// The returned function is called on one thread at a time.
Ask make_lookup(const LookupOptions& options);

// One answer for a resource: of its question, and of the hosts that an SRV record names.
struct Found {
  Outcome outcome = Outcome::kSilent;
  Resolution resolution{};  // if answered
  std::chrono::seconds ttl{0};
};

// Asks for each question, and in a second round for the hosts of SRV records.
std::map<Question, Found> look_up(const std::set<Question>& questions, const Ask& ask,
                                  const std::atomic<bool>& ended);

}  // namespace osm::inline v1::dns
