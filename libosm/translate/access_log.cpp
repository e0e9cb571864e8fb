#include "translate/access_log.hpp"

#include <array>
#include <utility>

#include "envoy/extensions/access_loggers/stream/v3/stream.pb.h"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

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

}  // namespace

envoy::config::accesslog::v3::AccessLog access_log(Direction direction) {
  envoy::extensions::access_loggers::stream::v3::StdoutAccessLog logger;
  auto& fields = *logger.mutable_log_format()->mutable_json_format()->mutable_fields();
  for (const auto& [key, format] : kKeys) fields[key].set_string_value(format);
  fields["peer_identity"].set_string_value(
      direction == Direction::kInbound ? "%DOWNSTREAM_PEER_URI_SAN%" : "%UPSTREAM_PEER_URI_SAN%");
  envoy::config::accesslog::v3::AccessLog log;
  set_extension(log, "envoy.access_loggers.stdout", logger);
  return log;
}

envoy::config::accesslog::v3::AccessLog unmatched_access_log(Direction direction) {
  auto log = access_log(direction);
  log.mutable_filter()->mutable_response_flag_filter()->add_flags("NR");
  return log;
}

}  // namespace osm::inline v1::translate
