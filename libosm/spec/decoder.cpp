#include "spec/decoder.hpp"

#include <boost/json/parse.hpp>

#include "model/names.hpp"
#include "spec/kinds.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {

ObjectReader::ObjectReader(const Object& object, NameRule rule) : object_(object) {
  if (object.json.size() > kMaxFileBytes) {
    findings_.refuse("", "larger than 3 MB", ErrorCode::kTooLarge);
    return;
  }
  boost::json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code fault;
  root_ = boost::json::parse(object.json, fault, {}, options);
  if (fault) {
    const bool deep = fault == boost::json::error::too_deep;
    findings_.refuse("", deep ? "nested too deep" : "not JSON: " + fault.message(),
                     deep ? ErrorCode::kTooLarge : ErrorCode::kInvalidSyntax);
    root_ = nullptr;
    return;
  }
  if (auto cause = why_unknown_kind(object.api_version, object.key.kind))
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
