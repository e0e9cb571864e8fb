#include "spec/log_format.hpp"

#include <algorithm>
#include <array>

namespace osm::inline v1::spec {
namespace {

// Commands without arguments, ordered.
constexpr auto kPlainCommands =
    std::to_array<std::string_view>({"ACCESS_LOG_TYPE",
                                     "BYTES_RECEIVED",
                                     "BYTES_RETRANSMITTED",
                                     "BYTES_SENT",
                                     "CONNECTION_ID",
                                     "CONNECTION_TERMINATION_DETAILS",
                                     "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
                                     "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
                                     "DOWNSTREAM_DETECTED_CLOSE_TYPE",
                                     "DOWNSTREAM_DIRECT_LOCAL_ADDRESS",
                                     "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT",
                                     "DOWNSTREAM_DIRECT_LOCAL_PORT",
                                     "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
                                     "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
                                     "DOWNSTREAM_DIRECT_REMOTE_PORT",
                                     "DOWNSTREAM_HANDSHAKE_DURATION",
                                     "DOWNSTREAM_HEADER_BYTES_RECEIVED",
                                     "DOWNSTREAM_HEADER_BYTES_SENT",
                                     "DOWNSTREAM_LOCAL_ADDRESS",
                                     "DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID",
                                     "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
                                     "DOWNSTREAM_LOCAL_CLOSE_REASON",
                                     "DOWNSTREAM_LOCAL_DNS_SAN",
                                     "DOWNSTREAM_LOCAL_EMAIL_SAN",
                                     "DOWNSTREAM_LOCAL_IP_SAN",
                                     "DOWNSTREAM_LOCAL_PORT",
                                     "DOWNSTREAM_LOCAL_SUBJECT",
                                     "DOWNSTREAM_LOCAL_URI_SAN",
                                     "DOWNSTREAM_PEER_CERT",
                                     "DOWNSTREAM_PEER_CERT_V_END",
                                     "DOWNSTREAM_PEER_CERT_V_START",
                                     "DOWNSTREAM_PEER_DNS_SAN",
                                     "DOWNSTREAM_PEER_EMAIL_SAN",
                                     "DOWNSTREAM_PEER_FINGERPRINT_1",
                                     "DOWNSTREAM_PEER_FINGERPRINT_256",
                                     "DOWNSTREAM_PEER_IP_SAN",
                                     "DOWNSTREAM_PEER_ISSUER",
                                     "DOWNSTREAM_PEER_OTHERNAME_SAN",
                                     "DOWNSTREAM_PEER_SERIAL",
                                     "DOWNSTREAM_PEER_SUBJECT",
                                     "DOWNSTREAM_PEER_URI_SAN",
                                     "DOWNSTREAM_REMOTE_ADDRESS",
                                     "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
                                     "DOWNSTREAM_REMOTE_PORT",
                                     "DOWNSTREAM_TLS_CIPHER",
                                     "DOWNSTREAM_TLS_SESSION_ID",
                                     "DOWNSTREAM_TLS_VERSION",
                                     "DOWNSTREAM_TRANSPORT_FAILURE_REASON",
                                     "DOWNSTREAM_WIRE_BYTES_RECEIVED",
                                     "DOWNSTREAM_WIRE_BYTES_SENT",
                                     "DURATION",
                                     "FILTER_CHAIN_NAME",
                                     "GRPC_STATUS_NUMBER",
                                     "HOSTNAME",
                                     "LOCAL_REPLY_BODY",
                                     "PACKETS_RETRANSMITTED",
                                     "PROTOCOL",
                                     "QUERY_PARAMS",
                                     "REQUESTED_SERVER_NAME",
                                     "REQUEST_DURATION",
                                     "REQUEST_HEADERS_BYTES",
                                     "REQUEST_TX_DURATION",
                                     "RESPONSE_CODE",
                                     "RESPONSE_CODE_DETAILS",
                                     "RESPONSE_DURATION",
                                     "RESPONSE_FLAGS",
                                     "RESPONSE_FLAGS_LONG",
                                     "RESPONSE_HEADERS_BYTES",
                                     "RESPONSE_TRAILERS_BYTES",
                                     "RESPONSE_TX_DURATION",
                                     "ROUNDTRIP_DURATION",
                                     "ROUTE_NAME",
                                     "SPAN_ID",
                                     "STREAM_ID",
                                     "TLS_JA3_FINGERPRINT",
                                     "TLS_JA4_FINGERPRINT",
                                     "TRACE_ID",
                                     "UNIQUE_ID",
                                     "UPSTREAM_CLUSTER",
                                     "UPSTREAM_CLUSTER_RAW",
                                     "UPSTREAM_CONNECTION_ID",
                                     "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
                                     "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
                                     "UPSTREAM_DETECTED_CLOSE_TYPE",
                                     "UPSTREAM_HEADER_BYTES_RECEIVED",
                                     "UPSTREAM_HEADER_BYTES_SENT",
                                     "UPSTREAM_HOST",
                                     "UPSTREAM_HOSTS_ATTEMPTED",
                                     "UPSTREAM_HOST_NAME",
                                     "UPSTREAM_HOST_NAMES_ATTEMPTED",
                                     "UPSTREAM_HOST_NAME_WITHOUT_PORT",
                                     "UPSTREAM_LOCAL_ADDRESS",
                                     "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
                                     "UPSTREAM_LOCAL_CLOSE_REASON",
                                     "UPSTREAM_LOCAL_DNS_SAN",
                                     "UPSTREAM_LOCAL_IP_SAN",
                                     "UPSTREAM_LOCAL_PORT",
                                     "UPSTREAM_LOCAL_URI_SAN",
                                     "UPSTREAM_PEER_CERT",
                                     "UPSTREAM_PEER_CERT_V_END",
                                     "UPSTREAM_PEER_CERT_V_START",
                                     "UPSTREAM_PEER_DNS_SAN",
                                     "UPSTREAM_PEER_IP_SAN",
                                     "UPSTREAM_PEER_ISSUER",
                                     "UPSTREAM_PEER_SUBJECT",
                                     "UPSTREAM_PEER_URI_SAN",
                                     "UPSTREAM_PROTOCOL",
                                     "UPSTREAM_REMOTE_ADDRESS",
                                     "UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID",
                                     "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
                                     "UPSTREAM_REMOTE_PORT",
                                     "UPSTREAM_REQUEST_ATTEMPT_COUNT",
                                     "UPSTREAM_TLS_CIPHER",
                                     "UPSTREAM_TLS_SESSION_ID",
                                     "UPSTREAM_TLS_VERSION",
                                     "UPSTREAM_TRANSPORT_FAILURE_REASON",
                                     "UPSTREAM_WIRE_BYTES_RECEIVED",
                                     "UPSTREAM_WIRE_BYTES_SENT",
                                     "VIRTUAL_CLUSTER_NAME"});

// Commands with arguments in parentheses.
struct Command {
  std::string_view name;
  bool required = true;  // the arguments
  bool header = false;   // its argument is a header name and perhaps another one: "A?B"
};
constexpr auto kCommandsWithArguments = std::to_array<Command>({
    {"COMMON_DURATION"},
    {"DYNAMIC_METADATA"},
    {"FILTER_STATE"},
    {"GRPC_STATUS", false},
    {"PATH", false},
    {"QUERY_PARAM"},
    {"REQ", true, true},
    {"REQUEST_HEADER", true, true},
    {"REQ_WITHOUT_QUERY", true, true},
    {"RESP", true, true},
    {"RESPONSE_HEADER", true, true},
    {"RESPONSE_TRAILER", true, true},
    {"START_TIME", false},
    {"TRAILER", true, true},
});

constexpr std::size_t kMostLengthDigits = 6;  // of a length

bool is_in_name(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads "NAME(ARGUMENTS):LENGTH%" from the begin of `text`, and removes it.
class CommandReader {
 public:
  explicit CommandReader(std::string_view& text) : text_(text) {}

  std::optional<std::string> read() {
    const std::string_view name = take(is_in_name);
    std::optional<std::string_view> arguments;
    if (text_.starts_with('(')) {
      const auto end = text_.find(')');
      if (end == std::string_view::npos) return unfinished(name);
      arguments = text_.substr(1, end - 1);
      text_.remove_prefix(end + 1);
    }
    bool limited = false;
    if (text_.starts_with(':')) {
      text_.remove_prefix(1);
      const std::string_view length = take(is_digit);
      if (length.empty() || length.size() > kMostLengthDigits) return unfinished(name);
      limited = true;
    }
    if (name.empty() || !text_.starts_with('%')) return unfinished(name);
    text_.remove_prefix(1);
    return check(name, arguments, limited);
  }

 private:
  static std::optional<std::string> unfinished(std::string_view name) {
    return "has %" + std::string(name) +
           ", which is no command of Envoy's format; write commands as %RESPONSE_CODE% or "
           "%REQ(:METHOD)%, and a percent sign as %%";
  }

  static std::optional<std::string> check(std::string_view name,
                                          const std::optional<std::string_view>& arguments,
                                          bool limited) {
    if (std::binary_search(kPlainCommands.begin(), kPlainCommands.end(), name)) {
      if (arguments || limited)
        return "has %" + std::string(name) + "%, which takes no arguments and no length";
      return std::nullopt;
    }
    const auto command = std::find_if(kCommandsWithArguments.begin(), kCommandsWithArguments.end(),
                                      [&](const Command& one) { return one.name == name; });
    if (command == kCommandsWithArguments.end())
      return "has %" + std::string(name) +
             "%, which is no command that sidecars may use in access logs";
    if (command->required && arguments.value_or("").empty())
      return "has %" + std::string(name) + "%, which needs an argument in parentheses";
    if (command->header && std::count(arguments->begin(), arguments->end(), '?') > 1)
      return "has %" + std::string(name) + "% with more than two headers";
    return std::nullopt;
  }

  std::string_view take(bool (*wanted)(char)) {
    const auto end = std::find_if_not(text_.begin(), text_.end(), wanted);
    const std::string_view taken(text_.begin(), end);
    text_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view& text_;
};

}  // namespace

std::optional<std::string> why_bad_log_format(std::string_view text) {
  for (auto next = text.find('%'); next != std::string_view::npos; next = text.find('%')) {
    text.remove_prefix(next + 1);
    if (text.starts_with('%')) {  // "%%" is a percent sign
      text.remove_prefix(1);
    } else if (auto cause = CommandReader(text).read()) {
      return cause;
    }
  }
  return std::nullopt;
}

}  // namespace osm::inline v1::spec
