// A decoder takes each member of a map that it names, and none that it does not name.
#include "spec/fields.hpp"

int main() {
  osm::spec::Findings findings;
  const osm::spec::Field field(nullptr, "spec", findings);
#ifdef MemberNotTaken
  const auto [map, number] = field.required_map("number", "protocol");
#elif defined(MemberNotNamed)
  const auto [map, number, protocol, name] = field.required_map("number", "protocol");
#else
  const auto [map, number, protocol] = field.required_map("number", "protocol");
#endif
#ifdef OptionalMemberNotTaken
  const auto [is_map, host] = field.optional_map("host", "port");
#elif defined(OptionalMemberNotNamed)
  const auto [is_map, host, port, name] = field.optional_map("host", "port");
#else
  const auto [is_map, host, port] = field.optional_map("host", "port");
#endif
  return map || is_map || number.present() || host.present() ? 1 : 0;
}
