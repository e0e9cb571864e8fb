// DiscoveryRequest and DiscoveryResponse as simulated proxies need them: read without copying, and
// what a response's resources name worked out once per distinct content, however many proxies
// receive it. That keeps the clients' share of the machine small beside the server's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "osm/values/proxy.hpp"

namespace osm::bench {

// The resources of one response and the resources that they need. Ordered, unique.
struct Contents {
  struct Resource {
    std::string name;
    std::uint64_t hash = 0;  // of its bytes
  };
  std::vector<Resource> resources;
  std::vector<std::string> load_assignments;  // that clusters take from EDS
  std::vector<std::string> secrets;           // that clusters and listeners take from SDS
  std::vector<std::string> routes;            // that listeners take from RDS
};

struct Response {
  XdsType type{};
  std::string_view version;
  std::string_view nonce;
  std::uint64_t content_hash = 0;
  std::vector<std::string_view> resources;  // serialized google.protobuf.Any each
};

// Result: nullopt when `bytes` is no DiscoveryResponse of a type we know. Borrows `bytes`.
std::optional<Response> parse_response(std::string_view bytes);

struct Request {
  std::string_view node_id{};  // empty: no node
  XdsType type{};
  std::string_view version{};
  std::string_view nonce{};
  const std::vector<std::string>* names = nullptr;
};
std::string serialize_request(const Request& request);
// The part of a request that a server reads. Result: nullopt when it is malformed. Borrows `bytes`.
struct RequestHead {
  XdsType type{};
  bool initial = false;  // carries no nonce
};
std::optional<RequestHead> parse_request(std::string_view bytes);

// The contents of one resource, a serialized google.protobuf.Any.
Contents read_contents(XdsType type, std::string_view any);

// Contents by content hash. Thread: one.
class ContentsIndex {
 public:
  std::shared_ptr<const Contents> contents_of(const Response& response);

 private:
  std::unordered_map<std::uint64_t, std::shared_ptr<const Contents>> known_;
};

}  // namespace osm::bench
