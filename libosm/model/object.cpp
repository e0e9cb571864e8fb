#include "osm/object.hpp"

#include <array>

#include "osm/values/object_status.hpp"

namespace osm::inline v1 {

std::string ObjectKey::str() const {
  const std::string_view of(group);
  const bool known =
      of.empty() || of.ends_with("smi-spec.io") || of.ends_with("openservicemesh.io");
  const std::string full = known ? kind : kind + '.' + group;
  return ns.empty() ? full + ' ' + name : full + ' ' + ns + '/' + name;
}

int ObjectSource::line_of(std::string_view field) const {
  for (std::string name(field); !name.empty();) {
    if (auto at = fields.find(name); at != fields.end()) return at->second;
    const auto cut = name.find_last_of(".[");
    name.resize(cut == std::string::npos ? 0 : cut);
  }
  return line;
}

std::string Problem::text() const {
  return error().message + " [" + std::string(error_code_text(code)) + ']';
}

Error Problem::error() const {
  std::string out;
  if (!path.empty()) out += path + (line > 0 ? ':' + std::to_string(line) : "") + ": ";
  if (!object.kind.empty()) out += object.str() + ": ";
  if (!field.empty()) out += field + ": ";
  return {code, out + cause};
}

void Problem::locate(const ObjectSource& source) {
  path = source.path;
  line = source.line_of(field);
}

std::string_view object_phase_text(ObjectPhase phase) {
  constexpr std::array kTexts{"Rejected", "Pending", "Refused", "Applied"};
  return kTexts.at(static_cast<std::size_t>(phase));
}

}  // namespace osm::inline v1
