// Envoy's format of access logs: text with commands, such as "%REQ(:METHOD)% %RESPONSE_CODE%".
// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace osm::inline v1::spec {

// Reason why the text cannot be used; nullopt: it can. Only commands that every supported Envoy
// knows are accepted, and none that reads a file or the environment of a sidecar: a collector is
// another host.
std::optional<std::string> why_bad_log_format(std::string_view text);

}  // namespace osm::inline v1::spec
