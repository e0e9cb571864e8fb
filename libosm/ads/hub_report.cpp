// The hub's log lines and metrics; members of Hub.
#include <algorithm>
#include <string_view>

#include "ads/hub.hpp"
#include "ads/metrics.hpp"

namespace osm::inline v1::ads {
namespace {

constexpr Counter kStreamsEnded{
    "osm_streams_ended_total", "Streams of served proxies that ended, by code", {"code"}};
constexpr Counter kProxyFlapping{"osm_proxy_flapping_total",
                                 "Proxy certificates used from two addresses in turn"};
constexpr Gauge kProxiesBehind{"osm_proxies_behind",
                               "Proxies that have owed an answer for more than 10 seconds"};
constexpr Gauge kUnfinishedWriteBytes{"osm_unfinished_write_bytes",
                                      "Bytes of responses that are being written to proxies"};

constexpr std::chrono::seconds kBehind{10};

}  // namespace

// A proxy can cause its lines as often as it likes, also by connecting again. Each message of a
// proxy has a limit of its own, so that frequent lines hide no rare ones. `message`: a literal.
void Hub::say(LogLevel level, std::string_view message, const Stream& stream,
              std::vector<LogField> fields) {
  LogSink& log = deps_.runtime.log;
  if (!log.enabled(level)) return;
  const auto left_out = lines_.admit({message, stream.key()});
  if (!left_out) return;
  fields.insert(fields.begin(), {"uuid", stream.key().id.str()});
  if (*left_out > 0) fields.push_back({"left_out", std::to_string(*left_out)});
  log.write(level, message, fields);
}

// A counter that appears with its first event shows no increase, so that no alert sees that event.
void Hub::report_zeros() const {
  MetricsSink& metrics = deps_.runtime.metrics;
  for (XdsType type : kXdsTypes)
    metrics.add(kNacks, {{"type", xds_type_text(type)}, {"object_kind", "unknown"}}, 0);
  for (ErrorCode code :
       {ErrorCode::kUnknownProxy, ErrorCode::kIdentityMismatch, ErrorCode::kCertificateExpired,
        ErrorCode::kPermissionDenied, ErrorCode::kWrongCertificateKind, ErrorCode::kNotReady})
    metrics.add(kStreamsRefused, {{"code", error_code_text(code)}}, 0);
  metrics.add(kStreamsEnded, {{"code", "hung-up"}}, 0);
  metrics.add(kProxyFlapping, {}, 0);
  metrics.add(kProxyMaxConnectionsRejected, {}, 0);
}

void Hub::report_behind(SteadyTime now) {
  std::size_t behind = 0;
  for (const auto& [id, stream] : streams_) {
    if (!stream.session || stream.settled) continue;
    behind += std::any_of(kXdsTypes.begin(), kXdsTypes.end(), [&](XdsType type) {
      const std::optional<SteadyTime> sent = stream.session->state(type).sent_at;
      return sent.has_value() && now - *sent > kBehind;
    });
  }
  deps_.runtime.metrics.set(kProxiesBehind, {}, behind);
}

// Lengths as of now: the tick is a task of the strand, so those behind it have waited for it.
void Hub::report_queues() const {
  const auto set = [&](std::string_view queue, std::size_t length) {
    deps_.runtime.metrics.set(kQueueLength, {{"queue", queue}}, length);
  };
  set("tasks", deps_.waiting_tasks ? deps_.waiting_tasks() : 0);
  set("classes", classes_.waiting());
  set("streams", queue_.waiting());
  deps_.runtime.metrics.set(kUnfinishedWriteBytes, {}, queue_.unfinished_bytes());
}

void Hub::report_flapping(const Stream& stream, LogField other) {
  deps_.runtime.metrics.add(kProxyFlapping, {}, 1);
  say(LogLevel::kError, "one proxy certificate is used from two addresses: is its key stolen?",
      stream,
      {{"code", "proxy-flapping"},
       {"workload", stream.workload->workload.name.str()},
       {"address", std::string(peer_host(stream.peer.address))},
       std::move(other)});
}

void Hub::report_twins(SteadyTime now) {
  for (const ReplicaStreams::Twin& twin : replica_streams_.tick(now))
    if (const Stream* stream = streams_.serving(twin.proxy))
      report_flapping(*stream, {"other_replica", twin.replica});
}

void Hub::report_nack(const Stream& stream, XdsType type, std::string_view detail) {
  if (trials_.on_trial(stream)) return;  // a trial provokes refusals
  deps_.runtime.metrics.add(kNacks, {{"type", xds_type_text(type)}, {"object_kind", "unknown"}}, 1);
  const model::ProxyKey key = stream.key();
  progressed_.notify(&key);
  if (type != XdsType::kSecret)
    refused_.notify({key, stream.workload->workload.name, type, std::string(detail)});
  say(LogLevel::kError, "the proxy refused its configuration; its last good one is restored",
      stream,
      {{"code", "nack"},
       {"workload", stream.workload->workload.name.str()},
       {"type", std::string(xds_type_text(type))},
       {"version", stream.session->state(type).last_sent_version},
       {"detail", std::string(detail)}});
}

void Hub::report_end(const Stream& stream, CloseCode code, const std::string& text) {
  const std::string_view reason = std::string_view(text).substr(0, text.find(':'));
  if (stream.session) {
    deps_.runtime.metrics.add(kStreamsEnded, {{"code", reason}}, 1);
    say(LogLevel::kInfo, "proxy disconnected", stream,
        {{"workload", stream.workload->workload.name.str()}, {"reason", text}});
  } else if (code != CloseCode::kCancelled) {
    report_refusal(reason, {{"uuid", stream.peer.identity.id.str()},
                            {"account", stream.peer.identity.account.str()},
                            {"address", stream.peer.address},
                            {"detail", text}});
  }
}

// The holder of a certificate can be refused as often as it likes.
void Hub::report_refusal(std::string_view code, std::vector<LogField> fields) {
  deps_.runtime.metrics.add(kStreamsRefused, {{"code", code}}, 1);
  const auto left_out = refusals_logged_.admit();
  if (!left_out) return;
  fields.insert(fields.begin(), {"code", std::string(code)});
  fields.push_back({"left_out", std::to_string(*left_out)});
  deps_.runtime.log.write(LogLevel::kWarning, "a stream is refused", fields);
}

}  // namespace osm::inline v1::ads
