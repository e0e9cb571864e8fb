// Readers of the bodies that ARM, the authority and the metadata service answer with. They are
// lenient: a member that is missing or of another type reads as absent. Schemas:
// https://learn.microsoft.com/rest/api/compute/virtual-machines/get
// https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-sets/get
// https://learn.microsoft.com/rest/api/virtualnetwork/network-interfaces/get
// https://learn.microsoft.com/rest/api/virtualnetwork/network-interfaces/list-virtual-machine-scale-set-network-interfaces
// https://learn.microsoft.com/rest/api/compute/virtual-machine-scale-set-vms/list
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/secret_bytes.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::azure {

struct VirtualMachine {
  std::string interface;          // id of the primary network interface; empty: none
  std::optional<bool> running{};  // nullopt: ARM does not tell
  std::optional<std::string> zone{};
};

struct ScaleSet {
  bool flexible = false;  // its orchestration mode; false also if ARM does not tell
};

struct Interface {
  std::string address;   // the primary private IPv4 address; empty: none
  std::string instance;  // of a scale set, "7"; empty: of no such instance
  bool primary = false;
};

struct Instance {
  std::string id;  // "7"
  std::optional<bool> running{};
  std::optional<std::string> zone{};
};

template <class Item>
struct Page {
  std::vector<Item> items;
  std::string next;  // a URL; empty: the last page
};

struct Token {
  SecretBytes text;
  std::chrono::seconds life{0};
};

// All: Failure: kInternal, without a quotation of the body.
Result<VirtualMachine> read_virtual_machine(std::string_view body);
Result<ScaleSet> read_scale_set(std::string_view body);
Result<Interface> read_interface(std::string_view body);
Result<Page<Interface>> read_interfaces(std::string_view body);
Result<Page<Instance>> read_instances(std::string_view body);
Result<Token> read_token(std::string_view body);

// "ResourceNotFound: The Resource ... was not found", in one line of bounded length; empty: the
// body says nothing. For ARM's errors.
std::string error_of(std::string_view body);
// "invalid_client", of the authority's and the metadata service's errors. Its description may quote
// the request and is left out.
std::string token_error_of(std::string_view body);
// Seconds of a Retry-After header, from 1 to an hour; `otherwise` if it is none.
std::chrono::seconds retry_after_of(std::string_view header, std::chrono::seconds otherwise);

}  // namespace osm::inline v1::azure
