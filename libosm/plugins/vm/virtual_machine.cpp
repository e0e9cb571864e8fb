#include "vm/virtual_machine.hpp"

#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "model/ip_address.hpp"
#include "model/names.hpp"
#include "osm/spec/vm_provider.hpp"

namespace osm::inline v1::vm {
namespace {

namespace json = boost::json;

constexpr const char* kNotALabel =
    "must be a DNS label: lower-case letters, digits and '-', at most 63";

// Limits on the cost of one object (docs/adr/0019).
constexpr std::size_t kMaxPorts = 1024;
constexpr std::size_t kMaxProblems = 100;
constexpr std::size_t kMaxFieldBytes = 512;

class Decoder {
 public:
  explicit Decoder(const Object& object) : object_(object) {
    machine_.name = {object.key.ns, object.key.name};
    machine_.labels = object.labels;
  }

  DecodedVirtualMachine run() && {
    if (object_.api_version != kApiVersion)
      refuse("apiVersion", std::string("not supported; use ") + kApiVersion,
             ErrorCode::kUnknownKind);
    // Must be a label: it becomes part of the certificate's common name.
    if (!is_dns_label(object_.key.name)) refuse("metadata.name", kNotALabel);
    if (!is_dns_label(object_.key.ns))
      refuse("metadata.namespace", object_.key.ns.empty() ? "required" : kNotALabel);
    const json::value* spec = member(*object_.document, "spec");
    if (spec != nullptr && spec->is_object()) {
      read(*spec);
    } else {
      refuse("spec", "required: a map with address and serviceAccount");
    }
    DecodedVirtualMachine out;
    if (problems_.empty()) out.value = std::move(machine_);
    out.problems = std::move(problems_);
    return out;
  }

 private:
  void refuse(std::string field, std::string cause, ErrorCode code = ErrorCode::kInvalidField) {
    if (problems_.size() >= kMaxProblems) return;
    if (field.size() > kMaxFieldBytes) field = field.substr(0, kMaxFieldBytes) + "...";
    problems_.push_back({code, object_.key, "", 0, std::move(field), std::move(cause)});
  }

  std::optional<std::string> text(const json::value& map, std::string_view name,
                                  const std::string& path, bool required) {
    const auto* value = member(map, name);
    if (value && value->is_string()) return text_at(map, name);
    if (value || required) refuse(path, value ? "must be a string" : "required");
    return std::nullopt;
  }

  void read(const json::value& spec) {
    if (auto address = text(spec, "address", "spec.address", true)) read_address(*address);
    if (auto account = text(spec, "serviceAccount", "spec.serviceAccount", true)) {
      if (!is_dns_label(*account)) refuse("spec.serviceAccount", kNotALabel);
      machine_.account = {object_.key.ns, *account};
    }
    if (auto uuid = text(spec, "proxyUUID", "spec.proxyUUID", false)) {
      if (!is_uuid(*uuid))
        refuse("spec.proxyUUID",
               "must be a UUID in lower case, such as 6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a");
      machine_.proxy_id = ProxyId(*uuid);
    }
    if (const auto* ports = member(spec, "ports")) read_ports(*ports);
    for (const auto& [key, value] : spec.get_object()) {
      const std::string_view name = key;
      if (name != "address" && name != "serviceAccount" && name != "proxyUUID" && name != "ports")
        refuse("spec." + std::string(name),
               "no such field; known here: address, serviceAccount, proxyUUID, ports");
    }
  }

  void read_address(const std::string& address) {
    if (model::is_unicast_ipv4(address)) {
      machine_.address = address;
    } else if (model::is_ipv4(address)) {
      refuse("spec.address", std::string(model::kNotUnicast) +
                                 "; give the one that other machines reach it at, such as "
                                 "10.0.0.7");
    } else if (model::is_ipv6(address)) {
      refuse("spec.address", "IPv6 is not supported yet; give an IPv4 address");
    } else {
      refuse("spec.address", "must be an IPv4 address, such as 10.0.0.7, not a name");
    }
  }

  void read_ports(const json::value& value) {
    const auto* list = value.if_array();
    if (list == nullptr) return refuse("spec.ports", "must be a list of {name, port}");
    if (list->size() > kMaxPorts)
      return refuse(
          "spec.ports",
          "has " + std::to_string(list->size()) + " entries, at most " + std::to_string(kMaxPorts),
          ErrorCode::kTooLarge);
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string path = "spec.ports[" + std::to_string(i) + ']';
      const json::value& item = (*list)[i];
      if (!item.is_object()) {
        refuse(path, "must be a map of name and port");
        continue;
      }
      const auto name = text(item, "name", path + ".name", true);
      if (name && !is_dns_label(*name)) refuse(path + ".name", kNotALabel);
      const auto* port = member(item, "port");
      const auto number = port == nullptr ? std::nullopt : whole_number(*port);
      if (!number || *number < 1 || *number > 65535) {
        refuse(path + ".port",
               port == nullptr ? "required" : "must be a whole number from 1 to 65535");
      } else if (name && !machine_.ports.emplace(*name, static_cast<Port>(*number)).second) {
        refuse(path + ".name", "two ports have this name");
      }
    }
  }

  const Object& object_;
  VirtualMachine machine_;
  std::vector<Problem> problems_;
};

}  // namespace

DecodedVirtualMachine decode_virtual_machine(const Object& object) { return Decoder(object).run(); }

std::vector<Problem> check_virtual_machine(const Object& object) {
  return decode_virtual_machine(object).problems;
}

}  // namespace osm::inline v1::vm
