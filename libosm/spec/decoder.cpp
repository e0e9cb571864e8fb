#include "spec/decoder.hpp"

#include "model/names.hpp"

namespace osm::inline v1::spec {

ObjectReader::ObjectReader(const Object& object, NameRule rule) : object_(object) {
  if (auto cause = why_unknown(object))
    findings_.refuse("apiVersion", *std::move(cause), ErrorCode::kUnknownKind);
  if (object.key.ns.empty()) {
    findings_.refuse("metadata.namespace", "required");
  } else if (!is_dns_label(object.key.ns)) {
    findings_.refuse("metadata.namespace", kNotALabel);
  }
  const bool named =
      rule == NameRule::kLabel ? is_dns_label(object.key.name) : is_dns_subdomain(object.key.name);
  if (!named)
    findings_.refuse("metadata.name", rule == NameRule::kLabel ? kNotALabel : kNotASubdomain);
}

std::string required_label(const Field& field) {
  std::string name = field.required_text();
  if (!name.empty() && !is_dns_label(name)) field.refuse(kNotALabel);
  return name;
}

std::string required_subdomain(const Field& field) {
  std::string name = field.required_text();
  if (!name.empty() && !is_dns_subdomain(name)) field.refuse(kNotASubdomain);
  return name;
}

}  // namespace osm::inline v1::spec
