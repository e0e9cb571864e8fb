#include "translate/access_log.hpp"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <map>
#include <utility>

#include "envoy/extensions/access_loggers/open_telemetry/v3/logs_service.pb.h"
#include "envoy/extensions/access_loggers/stream/v3/stream.pb.h"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace otel = opentelemetry::proto::common::v1;
using envoy::config::core::v3::SubstitutionFormatString;
using google::protobuf::Struct;

constexpr std::array<std::pair<const char*, const char*>, 19> kKeys{{
    {"start_time", "%START_TIME%"},
    {"method", "%REQ(:METHOD)%"},
    {"path",
     "%REQ(:PATH)%"},  // no route rewrites it; the original-path header would be the client's claim
    {"protocol", "%PROTOCOL%"},
    {"response_code", "%RESPONSE_CODE%"},
    {"response_code_details", "%RESPONSE_CODE_DETAILS%"},
    {"time_to_first_byte", "%RESPONSE_DURATION%"},
    {"upstream_cluster", "%UPSTREAM_CLUSTER%"},
    {"response_flags", "%RESPONSE_FLAGS%"},
    {"bytes_received", "%BYTES_RECEIVED%"},
    {"bytes_sent", "%BYTES_SENT%"},
    {"duration", "%DURATION%"},
    {"upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"},
    {"x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"},
    {"user_agent", "%REQ(USER-AGENT)%"},
    {"request_id", "%REQ(X-REQUEST-ID)%"},
    {"requested_server_name", "%REQUESTED_SERVER_NAME%"},
    {"authority", "%REQ(:AUTHORITY)%"},
    {"upstream_host", "%UPSTREAM_HOST%"},
}};

// Envoy has this command in an extension, unlike the others.
constexpr std::string_view kWithoutQuery = "%REQ_WITHOUT_QUERY(";

Struct default_keys(Direction direction) {
  Struct out;
  auto& fields = *out.mutable_fields();
  for (const auto& [key, format] : kKeys) fields[key].set_string_value(format);
  fields["peer_identity"].set_string_value(
      direction == Direction::kInbound ? "%DOWNSTREAM_PEER_URI_SAN%" : "%UPSTREAM_PEER_URI_SAN%");
  return out;
}

// Precondition: not kText. A text that is no JSON object, from a host's own MeshSpec, counts as
// absent.
Struct keys_of(const AccessLogs& logs, Direction direction) {
  Struct out;
  const bool read = logs.kind == AccessLogFormat::Kind::kJson &&
                    google::protobuf::util::JsonStringToMessage(logs.text, &out).ok();
  return read ? out : default_keys(direction);
}

void add_formatters(
    const std::string& text,
    google::protobuf::RepeatedPtrField<envoy::config::core::v3::TypedExtensionConfig>& out) {
  if (text.find(kWithoutQuery) == std::string::npos) return;
  auto& formatter = *out.Add();
  formatter.set_name("envoy.formatter.req_without_query");
  formatter.mutable_typed_config()->set_type_url(  // it has no fields
      "type.googleapis.com/envoy.extensions.formatter.req_without_query.v3.ReqWithoutQuery");
}

void add_stdout(const AccessLogs& logs, Direction direction, AccessLogList& out) {
  envoy::extensions::access_loggers::stream::v3::StdoutAccessLog logger;
  SubstitutionFormatString& format = *logger.mutable_log_format();
  if (logs.kind == AccessLogFormat::Kind::kText) {
    const bool ended = logs.text.ends_with('\n');
    format.mutable_text_format_source()->set_inline_string(ended ? logs.text : logs.text + '\n');
  } else {
    *format.mutable_json_format() = keys_of(logs, direction);
  }
  add_formatters(logs.text, *format.mutable_formatters());
  set_extension(*out.Add(), "envoy.access_loggers.stdout", logger);
}

// Maps of texts, and texts: the decoder accepts nothing else.
void set_members(otel::KeyValueList& out, const Struct& keys) {
  std::map<std::string, const google::protobuf::Value*> ordered;
  for (const auto& [key, value] : keys.fields()) ordered.emplace(key, &value);
  for (const auto& [key, value] : ordered) {
    auto& member = *out.add_values();
    member.set_key(key);
    if (value->has_struct_value()) {
      set_members(*member.mutable_value()->mutable_kvlist_value(), value->struct_value());
    } else {
      member.mutable_value()->set_string_value(value->string_value());
    }
  }
}

void add_attribute(otel::KeyValueList& out, const std::string& key, const std::string& value) {
  auto& attribute = *out.add_values();
  attribute.set_key(key);
  attribute.mutable_value()->set_string_value(value);
}

void add_export(const AccessLogs& logs, Direction direction, AccessLogList& out) {
  const AccessLogs::Export& exported = *logs.exported;
  envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig logger;
  auto& common = *logger.mutable_common_config();
  common.mutable_grpc_service()->mutable_envoy_grpc()->set_cluster_name(exported.cluster);
  common.set_transport_api_version(envoy::config::core::v3::ApiVersion::V3);
  common.set_log_name("osm-access-log");
  logger.set_stat_prefix("osm_access_log");
  add_attribute(*logger.mutable_resource_attributes(), "service.name", exported.service_name);
  if (logs.kind == AccessLogFormat::Kind::kText) {
    logger.mutable_body()->set_string_value(logs.text);
  } else {
    set_members(*logger.mutable_body()->mutable_kvlist_value(), keys_of(logs, direction));
  }
  std::string commands = logs.text;
  for (const auto& [key, value] : exported.attributes) {
    add_attribute(*logger.mutable_attributes(), key, value);
    commands += value;
  }
  add_formatters(commands, *logger.mutable_formatters());
  set_extension(*out.Add(), "envoy.access_loggers.open_telemetry", logger);
}

}  // namespace

AccessLogs AccessLogs::of(const ClassView& view) {
  AccessLogs out;
  if (!view.telemetry) return out;
  out.kind = view.telemetry->format.kind;
  out.text = view.telemetry->format.text;
  if (const auto& collector = view.telemetry->collector)
    out.exported = Export{extension_cluster_name(collector->name),
                          telemetry_service_name(view.proxy_class.identity),
                          {collector->attributes.begin(), collector->attributes.end()}};
  return out;
}

void AccessLogs::add_to(AccessLogList& out, Direction direction) const {
  add_stdout(*this, direction, out);
  if (exported) add_export(*this, direction, out);
}

void AccessLogs::add_unmatched_to(AccessLogList& out, Direction direction) const {
  const int before = out.size();
  add_to(out, direction);
  for (int i = before; i < out.size(); ++i)
    out.Mutable(i)->mutable_filter()->mutable_response_flag_filter()->add_flags("NR");
}

void AccessLogs::add_references(std::vector<EncodedResource::Reference>& out) const {
  if (exported) out.push_back({XdsType::kCluster, exported->cluster});
}

std::string extension_cluster_name(const ExtensionServiceName& service) {
  return "extension-service|" + service.str();
}

std::string telemetry_service_name(const ServiceIdentity& identity) {
  return identity.name + '.' + identity.ns;
}

}  // namespace osm::inline v1::translate
