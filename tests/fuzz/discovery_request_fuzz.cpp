// Bytes as a proxy sends them → ads::parse_request and ads::parse_delta_request, beside protobuf's
// own parser: our scan of the wire format reads what protobuf reads, and refuses nothing that it
// takes.
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <map>
#include <string>

#include "ads/wire.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "fuzz/fuzz.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

void check_inside(std::string_view bytes, std::string_view part) {
  require(part.empty() || (part.data() >= bytes.data() &&
                           part.data() + part.size() <= bytes.data() + bytes.size()),
          "a request's fields are views into its bytes");
}

constexpr const char* kSame = "our scan reads what protobuf reads";

template <class Names>
void check_names(const std::vector<std::string_view>& ours, const Names& theirs,
                 std::string_view bytes) {
  require(std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end()), kSame, "names");
  for (const std::string_view name : ours) check_inside(bytes, name);
}

void check_same(const ads::Request& ours,
                const envoy::service::discovery::v3::DiscoveryRequest& theirs,
                std::string_view bytes) {
  require(ours.version == theirs.version_info(), kSame, "version_info");
  check_names(ours.names, theirs.resource_names(), bytes);
}

void check_same(const ads::DeltaRequest& ours,
                const envoy::service::discovery::v3::DeltaDiscoveryRequest& theirs,
                std::string_view bytes) {
  check_names(ours.subscribe, theirs.resource_names_subscribe(), bytes);
  check_names(ours.unsubscribe, theirs.resource_names_unsubscribe(), bytes);
  std::map<std::string, std::string> held;  // of a repeated name the last counts
  for (const auto& [name, version] : ours.held) held[std::string(name)] = version;
  require(held.size() == theirs.initial_resource_versions().size(), kSame, "held");
  for (const auto& [name, version] : theirs.initial_resource_versions())
    require(held[name] == version, kSame, "held");
}

template <class Message, class Request>
void compare(const Result<Request>& ours, std::string_view bytes) {
  Message theirs;
  if (!theirs.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  if (!ours.ok()) {
    require(bytes.size() > ads::kMaxNames, "what protobuf takes is not refused");
    return;
  }
  require(ours->type_url == theirs.type_url(), kSame, "type_url");
  require(ours->nonce == theirs.response_nonce(), kSame, "response_nonce");
  require(ours->error.has_value() == theirs.has_error_detail(), kSame, "error_detail");
  check_inside(bytes, ours->type_url);
  check_inside(bytes, ours->nonce);
  check_same(*ours, theirs, bytes);
}

void run(std::string_view bytes) {
  namespace discovery = envoy::service::discovery::v3;
  compare<discovery::DiscoveryRequest>(ads::parse_request(bytes), bytes);
  compare<discovery::DeltaDiscoveryRequest>(ads::parse_delta_request(bytes), bytes);
}

const bool kAdded = add("discovery_request", [](std::string_view input) {
  // Protobuf would print a line for every text that is not UTF-8.
  [[maybe_unused]] static const auto loud = google::protobuf::SetLogHandler(nullptr);
  run(input);
});

}  // namespace
