#include "machines/machine.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/json.hpp"
#include "model/names.hpp"

namespace osm::inline v1::machines {
namespace {

namespace json = boost::json;

// Limits on the cost of one object (docs/adr/0019).
constexpr std::size_t kMaxPorts = 1024;
constexpr std::size_t kMaxProblems = 100;
constexpr std::size_t kMaxFieldBytes = 512;

}  // namespace

MachineReader::MachineReader(const Object& object) : object_(object) {
  machine.name = {object.key.ns, object.key.name};
  machine.labels = object.labels;
  machine.created = object.created;
  const json::value* spec = member(*object.document, "spec");
  if (spec != nullptr && spec->is_object()) spec_ = spec;
}

void MachineReader::refuse(std::string field, std::string cause, ErrorCode code) {
  if (problems_.size() >= kMaxProblems) return;
  if (field.size() > kMaxFieldBytes) field = field.substr(0, kMaxFieldBytes) + "...";
  problems_.push_back({code, object_.key, "", 0, std::move(field), std::move(cause)});
}

std::optional<std::string> MachineReader::text(std::string_view name, bool required) {
  return text_in(*spec_, name, "spec." + std::string(name), required);
}

std::optional<std::string> MachineReader::text_in(const json::value& map, std::string_view name,
                                                  const std::string& path, bool required) {
  const auto* value = member(map, name);
  if (value && value->is_string()) return text_at(map, name);
  if (value || required) refuse(path, value ? "must be a string" : "required");
  return std::nullopt;
}

void MachineReader::read_account() {
  const auto account = text("serviceAccount", true);
  if (!account) return;
  if (!is_dns_label(*account)) refuse("spec.serviceAccount", kNotALabel);
  machine.account = {object_.key.ns, *account};
}

void MachineReader::read_ports() {
  const auto* value = member(*spec_, "ports");
  if (value == nullptr) return;
  const auto* list = value->if_array();
  if (list == nullptr) return refuse("spec.ports", "must be a list of {name, port}");
  if (list->size() > kMaxPorts)
    return refuse(
        "spec.ports",
        "has " + std::to_string(list->size()) + " entries, at most " + std::to_string(kMaxPorts),
        ErrorCode::kTooLarge);
  for (std::size_t i = 0; i < list->size(); ++i)
    read_port((*list)[i], "spec.ports[" + std::to_string(i) + ']');
}

void MachineReader::read_port(const json::value& item, const std::string& path) {
  if (!item.is_object()) return refuse(path, "must be a map of name and port");
  const auto name = text_in(item, "name", path + ".name", true);
  if (name && !is_dns_label(*name)) refuse(path + ".name", kNotALabel);
  const auto* port = member(item, "port");
  const auto number = port == nullptr ? std::nullopt : whole_number(*port);
  if (!number || *number < 1 || *number > 65535) {
    refuse(path + ".port", port == nullptr ? "required" : "must be a whole number from 1 to 65535");
  } else if (name && !machine.ports.emplace(*name, static_cast<Port>(*number)).second) {
    refuse(path + ".name", "two ports have this name");
  }
}

DecodedMachine decode_machine(const Object& object, const MachineForm& form) {
  MachineReader reader(object);
  if (object.api_version != kWorkloadApiVersion)
    reader.refuse("apiVersion", std::string("not supported; use ") + kWorkloadApiVersion,
                  ErrorCode::kUnknownKind);
  // Must be a label: it becomes part of the certificate's common name.
  if (!is_dns_label(object.key.name)) reader.refuse("metadata.name", kNotALabel);
  if (!is_dns_label(object.key.ns))
    reader.refuse("metadata.namespace", object.key.ns.empty() ? "required" : kNotALabel);
  if (reader.spec_ != nullptr) {
    form.read(reader);
    reader.read_account();
    reader.read_ports();
    std::vector<std::string_view> known = form.fields;
    known.insert(known.end(), {"serviceAccount", "ports"});
    std::string all;
    for (const std::string_view name : known) all.append(all.empty() ? "" : ", ").append(name);
    for (const auto& [key, value] : reader.spec_->get_object()) {
      const std::string_view name = key;
      if (std::find(known.begin(), known.end(), name) == known.end())
        reader.refuse("spec." + std::string(name), "no such field; known here: " + all);
    }
  } else {
    reader.refuse("spec", "required: a map with " + std::string(form.required));
  }
  DecodedMachine out;
  if (reader.problems_.empty()) out.value = std::move(reader.machine);
  out.problems = std::move(reader.problems_);
  return out;
}

}  // namespace osm::inline v1::machines
