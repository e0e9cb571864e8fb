// A machine object, decoded: a VirtualMachine with its address, or an object that names a resource
// of a platform, behind which any number of machines are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/object.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::machines {

inline constexpr const char* kWorkloadApiVersion = "workload.openservicemesh.io/v1alpha1";
inline constexpr const char* kNotALabel =
    "must be a DNS label: lower-case letters, digits and '-', at most 63";

struct Machine {
  WorkloadName name;
  std::map<std::string, std::string> labels;
  ServiceAccount account;
  std::map<std::string, Port> ports;
  std::optional<ProxyId> proxy_id;  // absent: derived from the name
  std::string address;              // IPv4; empty: `resource` tells
  std::string resource;             // id for a ResourceResolver
  bool dns = false;                 // its proxy answers for the names of Services
  std::string port_name;            // name of the port that an instance brings; empty: none
  Created created;                  // of the object

  friend bool operator==(const Machine&, const Machine&) = default;
};

struct DecodedMachine {
  std::optional<Machine> value;   // absent: invalid, left out
  std::vector<Problem> problems;  // without path and line
};

struct MachineForm;
// Reads a machine of the kind with that form.
OSM_API DecodedMachine decode_machine(const Object& object, const MachineForm& form);

// Reads the fields that all kinds of machines share, and collects problems.
class OSM_API MachineReader {
 public:
  explicit MachineReader(const Object& object);

  // Adds a problem, up to a bound.
  void refuse(std::string field, std::string cause, ErrorCode code = ErrorCode::kInvalidField);
  // The text of spec.<name>; nullopt: it is missing or no text, which is a problem unless it is
  // missing and not required.
  std::optional<std::string> text(std::string_view name, bool required);

  Machine machine;

 private:
  friend DecodedMachine decode_machine(const Object& object, const MachineForm& form);
  void read_account();
  void read_ports();
  void read_port(const boost::json::value& item, const std::string& path);
  std::optional<std::string> text_in(const boost::json::value& map, std::string_view name,
                                     const std::string& path, bool required);

  const Object& object_;
  const boost::json::value* spec_ = nullptr;
  std::vector<Problem> problems_;
};

// The fields of one kind beside serviceAccount and ports.
struct MachineForm {
  std::string_view required;             // in the text for an absent spec: "address and ..."
  std::vector<std::string_view> fields;  // its own
  void (*read)(MachineReader& reader);   // reads its own
};

}  // namespace osm::inline v1::machines
