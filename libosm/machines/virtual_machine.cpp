#include "machines/virtual_machine.hpp"

#include "model/ip_address.hpp"
#include "model/machine_names.hpp"

namespace osm::inline v1::vm {
namespace {

void read_address(machines::MachineReader& reader, const std::string& address) {
  if (model::is_unicast_ipv4(address)) {
    reader.machine.address = address;
  } else if (model::is_ipv4(address)) {
    reader.refuse("spec.address", std::string(model::kNotUnicast) +
                                      "; give the one that other machines reach it at, such as "
                                      "10.0.0.7");
  } else if (model::is_ipv6(address)) {
    reader.refuse("spec.address", "IPv6 is not supported yet; give an IPv4 address");
  } else {
    reader.refuse("spec.address",
                  "must be an IPv4 address, such as 10.0.0.7, not a name; for a name use a "
                  "DNSResource");
  }
}

void read(machines::MachineReader& reader) {
  if (const auto address = reader.text("address", true)) read_address(reader, *address);
  if (const auto uuid = reader.text("proxyUUID", false)) {
    if (!is_uuid(*uuid))
      reader.refuse("spec.proxyUUID",
                    "must be a UUID in lower case, such as 6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a");
    reader.machine.proxy_id = ProxyId(*uuid);
  }
}

}  // namespace

machines::DecodedMachine decode_virtual_machine(const Object& object) {
  static const machines::MachineForm kForm{
      .required = "address and serviceAccount", .fields = {"address", "proxyUUID"}, .read = read};
  machines::DecodedMachine out = machines::decode_machine(object, kForm);
  const auto dns = object.annotations.find(model::kDnsAnnotation);
  if (dns == object.annotations.end()) return out;
  const bool enabled = dns->second == model::kDnsEnabled;
  if (out.value) out.value->dns = enabled;
  // The machine stays in the mesh: its names are those of its name servers.
  if (!enabled)
    out.problems.push_back({ErrorCode::kInvalidField, object.key, "", 0,
                            std::string("metadata.annotations[") + model::kDnsAnnotation + ']',
                            model::kDnsChoice});
  return out;
}

}  // namespace osm::inline v1::vm
