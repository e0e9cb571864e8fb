#include "machines/dns_resource.hpp"

#include <algorithm>
#include <utility>

#include "model/ip_address.hpp"

namespace osm::inline v1::dns {
namespace {

constexpr RecordType kTypes[] = {RecordType::kA, RecordType::kAaaa, RecordType::kSrv};
constexpr std::size_t kMaxName = 253;
constexpr std::size_t kMaxLabel = 63;

std::optional<RecordType> type_of(std::string_view text) {
  for (const RecordType type : kTypes)
    if (text_of(type) == text) return type;
  return std::nullopt;
}

// Names have '_' in practice, not only those of SRV records.
bool is_label(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabel && label.front() != '-' &&
         label.back() != '-' && std::all_of(label.begin(), label.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
         });
}

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName) return false;
  while (true) {
    const auto dot = name.find('.');
    if (!is_label(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

// "_http._tcp.shop.example" → "http"; empty: no name of an SRV record.
std::string service_of(const std::string& name) {
  const auto dot = name.find('.');
  if (!name.starts_with('_') || dot == std::string::npos || name.size() <= dot + 1) return "";
  const std::string service = name.substr(1, dot - 1);
  return name[dot + 1] == '_' && is_dns_label(service) ? service : "";
}

void read(machines::MachineReader& reader) {
  std::optional<RecordType> type = RecordType::kA;
  if (const auto text = reader.text("type", false)) {
    type = type_of(*text);
    if (!type) reader.refuse("spec.type", "must be A, AAAA or SRV");
  }
  const auto written = reader.text("name", true);
  if (!written) return;
  const std::string name = normal_dns_name(*written);
  if (model::is_ipv4(name) || model::is_ipv6(name)) {
    reader.refuse("spec.name", "must be a DNS name; for an address use a VirtualMachine");
  } else if (!is_name(name)) {
    reader.refuse("spec.name",
                  "must be a DNS name, such as api.example.com: labels of letters, digits, '-' and "
                  "'_' of at most 63 characters, together at most 253");
  } else if (type == RecordType::kSrv) {
    reader.machine.port_name = service_of(name);
    if (reader.machine.port_name.empty())
      reader.refuse("spec.name",
                    "must be the name of an SRV record, such as _http._tcp.example.com");
  }
  if (type) reader.machine.resource = id_of({*type, name});
}

}  // namespace

std::string_view text_of(RecordType type) {
  switch (type) {
    case RecordType::kA:
      return "A";
    case RecordType::kAaaa:
      return "AAAA";
    case RecordType::kSrv:
      break;
  }
  return "SRV";
}

std::string id_of(const Question& question) {
  return std::string(text_of(question.type)).append(":").append(question.name);
}

std::optional<Question> question_of(std::string_view id) {
  const auto colon = id.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto type = type_of(id.substr(0, colon));
  const std::string_view name = id.substr(colon + 1);
  if (!type || !is_name(name)) return std::nullopt;
  return Question{*type, std::string(name)};
}

machines::DecodedMachine decode_dns_resource(const Object& object) {
  static const machines::MachineForm kForm{
      .required = "name and serviceAccount", .fields = {"name", "type"}, .read = read};
  return machines::decode_machine(object, kForm);
}

}  // namespace osm::inline v1::dns
