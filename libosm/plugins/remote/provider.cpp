#include "osm/remote/provider.hpp"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/backoff.hpp"
#include "base/log_limit.hpp"
#include "base/outage.hpp"
#include "base/strand.hpp"
#include "base/utf8.hpp"
#include "osm/notifier.hpp"
#include "remote/channel.hpp"
#include "remote/content.hpp"
#include "remote/reader.hpp"
#include "remote/watch_call.hpp"

namespace osm::inline v1::remote {
namespace {

constexpr std::uint32_t kVersion = 1;  // of the protocol
constexpr int kLostAfter = 3;          // heartbeats that did not come
constexpr Backoff kBackoff{std::chrono::milliseconds(500), std::chrono::seconds(15)};
constexpr std::size_t kMaxReason = 300;

std::string request_of(const RemoteProviderOptions& options) {
  proto::WatchRequest request;
  request.set_version(kVersion);
  request.set_heartbeat_seconds(static_cast<std::uint32_t>(options.heartbeat.count()));
  request.add_features("workloads");
  return request.SerializeAsString();
}

// Failure: kInvalidSyntax.
Result<proto::WatchResponse> parse(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  proto::WatchResponse message;
  if (bytes.Dump(&slices).ok())
    for (const grpc::Slice& slice : slices)
      text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  if (text.size() == bytes.Length() && message.ParseFromString(text)) return message;
  return Error{ErrorCode::kInvalidSyntax,
               "it sent a message that is no WatchResponse: make its code of the provider.proto "
               "that is installed with libosm"};
}

std::string reason_of(const grpc::Status& status) {
  if (status.ok()) return "it ended the stream";
  std::string text = escape_controls(to_utf8(status.error_message()), "?");
  if (text.size() > kMaxReason) text = to_utf8(text.substr(0, kMaxReason)) + "...";
  return "it cannot be asked (gRPC's code " + std::to_string(status.error_code()) + ": " + text +
         ')';
}

// Everything but the published state is confined to the strand.
class Provider final : public RemoteProvider {
 public:
  Provider(const RemoteProviderOptions& options, const RemoteProviderHost& host)
      : options_(options),
        runtime_(host.runtime),
        reader_(options, host.trust_domain),
        request_(request_of(options)),
        limit_(runtime_.clock),
        strand_(runtime_.blocking) {
    strand_.post([this] { connect(); });
  }

  ~Provider() override {
    strand_.stop();
    timer_.reset();
    if (call_) call_->cancel();
    // Until then gRPC's threads may post to the strand, and use the calls.
    for (const auto& call : {call_, ended_})
      if (call) call->wait_until_ended();
  }

  std::string id() const override { return options_.name; }

  bool has_synced() const override {
    const std::lock_guard lock(mutex_);
    return synced_;
  }

  bool healthy() const override {
    const std::lock_guard lock(mutex_);
    return healthy_;
  }

  std::optional<std::vector<Endpoint>> list_endpoints_for_service(
      const ServiceName& service) const override {
    const std::lock_guard lock(mutex_);
    return content_.endpoints(service);
  }

  Subscription subscribe(
      std::function<void(const std::vector<ServiceName>& changed)> on_change) override {
    return services_changed_.subscribe(std::move(on_change));
  }

  std::vector<Workload> list_workloads() const override {
    const std::lock_guard lock(mutex_);
    return content_.workloads();
  }

  std::optional<Workload> find_workload(const WorkloadName& name) const override {
    const std::lock_guard lock(mutex_);
    return content_.workload(name);
  }

  std::vector<Problem> list_problems() const override {
    std::optional<Problem> outage = outage_.problem();
    const std::lock_guard lock(mutex_);
    std::vector<Problem> problems = content_.problems();
    if (outage) problems.insert(problems.begin(), *std::move(outage));
    return problems;
  }

  Subscription subscribe_workloads(
      std::function<void(const std::vector<WorkloadName>& changed)> on_change) override {
    return workloads_changed_.subscribe(std::move(on_change));
  }

 private:
  void connect() {
    auto channel = open_channel(options_);
    if (!channel.ok()) return lose(channel.error());
    if (ended_) ended_->wait_until_ended();  // its last callback has posted on_end() already
    fresh_.emplace();
    reachable_ = true;
    stop_reason_.reset();
    heard_at_ = runtime_.clock.steady_now();
    const std::uint64_t number = ++call_number_;
    call_ = WatchCall::start(
        *channel, request_,
        {.on_message =
             [this, number](const grpc::ByteBuffer& message) {
               strand_.post([this, number, message] { on_message(number, message); });
             },
         .on_end =
             [this, number](const grpc::Status& status) {
               strand_.post([this, number, status] { on_end(number, status); });
             }});
    watch_silence();
  }

  std::chrono::nanoseconds patience() const { return kLostAfter * options_.heartbeat; }

  // Ends a call on which nothing came for too long.
  void watch_silence() {
    const auto silent = runtime_.clock.steady_now() - heard_at_;
    if (silent >= patience())
      return stop_call({ErrorCode::kDeadlineExceeded,
                        "it was silent for too long: let it send a message every " +
                            std::to_string(options_.heartbeat.count()) +
                            " s, an empty one will do"});
    timer_ = strand_.post_after(patience() - silent, [this] { watch_silence(); });
  }

  // on_end() follows.
  void stop_call(Error reason) {
    stop_reason_ = std::move(reason);
    if (call_) call_->cancel();
  }

  void on_message(std::uint64_t number, const grpc::ByteBuffer& bytes) {
    if (number != call_number_ || !call_ || stop_reason_) return;
    heard_at_ = runtime_.clock.steady_now();
    const auto message = parse(bytes);
    if (!message.ok()) return stop_call(message.error());
    if (const Status taken = take(*message); !taken.ok()) return stop_call(taken.error());
    call_->read_next();
  }

  Status take(const proto::WatchResponse& message) {
    if (message.health() != proto::HEALTH_UNSPECIFIED)
      reachable_ = message.health() == proto::HEALTH_HEALTHY;
    Edits edits = reader_.read(message);
    Changes changes;
    bool first = false;
    if (fresh_) {
      OSM_TRY(fresh_->put(std::move(edits), options_.limits, changes));
      if (!message.complete()) return {};
      changes = fresh_->changes_since(content_);
      const std::lock_guard lock(mutex_);
      std::swap(content_, *fresh_);
      first = !std::exchange(synced_, true);
    } else {
      const std::lock_guard lock(mutex_);
      OSM_TRY(content_.put(std::move(edits), options_.limits, changes));
    }
    if (fresh_) {
      fresh_.reset();
      failures_ = 0;
    }
    set_outage(reachable_ ? std::nullopt
                          : std::optional(
                                Error{ErrorCode::kUnavailable, "it does not reach its platform"}),
               changes, first);
    return {};
  }

  void on_end(std::uint64_t number, const grpc::Status& status) {
    if (number != call_number_) return;
    ended_ = std::exchange(call_, nullptr);
    lose(stop_reason_ ? *stop_reason_ : Error{ErrorCode::kUnavailable, reason_of(status)});
  }

  void lose(const Error& reason) {
    Changes changes;
    set_outage(reason, changes, false);
    ++failures_;
    timer_ = strand_.post_after(kBackoff.delay(failures_, runtime_.rng), [this] { connect(); });
  }

  // Sets the state of the connection, and announces it with `changes`. nullopt: it is healthy.
  void set_outage(const std::optional<Error>& reason, Changes& changes, bool first) {
    if (reason)
      outage_.fail(reason->code, {.code = reason->code,
                                  .object = {},
                                  .path = reader_.name(),
                                  .line = 0,
                                  .field = {},
                                  .cause = reason->message + "; its last lists are kept"});
    else
      outage_.end();
    const bool other = outage_.take_news() || first;
    bool told = first;
    {
      const std::lock_guard lock(mutex_);
      told |= std::exchange(healthy_, !reason) == reason.has_value();
    }
    changes.problems |= other;
    if (other) log(reason);
    // Without the lock: a subscriber reads at once.
    if (told || !changes.services.empty())
      services_changed_.notify({changes.services.begin(), changes.services.end()});
    if (changes.problems || !changes.workloads.empty())
      workloads_changed_.notify({changes.workloads.begin(), changes.workloads.end()});
  }

  void log(const std::optional<Error>& reason) {
    const auto left_out = limit_.admit();
    if (!left_out) return;
    const std::string more = std::to_string(*left_out);
    if (reason)
      runtime_.log.warning("a provider is stale; its last lists are kept",
                           {{"provider", options_.name},
                            {"address", options_.address},
                            {"cause", reason->text()},
                            {"lines_left_out", more}});
    else
      runtime_.log.info(
          "a provider has listed everything",
          {{"provider", options_.name}, {"address", options_.address}, {"lines_left_out", more}});
  }

  const RemoteProviderOptions options_;
  const Runtime runtime_;
  const Reader reader_;
  const std::string request_;

  std::shared_ptr<WatchCall> call_;   // null: there is none
  std::shared_ptr<WatchCall> ended_;  // the call before
  std::uint64_t call_number_ = 0;
  std::optional<Content> fresh_;      // of this call, until its list is complete
  std::optional<Error> stop_reason_;  // the call is cancelled for it
  bool reachable_ = true;             // the provider reaches its platform
  SteadyTime heard_at_{};
  unsigned failures_ = 0;
  LogLimit limit_;
  Outage<Problem> outage_{runtime_.clock, nullptr, std::chrono::seconds(0)};

  mutable std::mutex mutex_;  // over the published state
  Content content_;
  bool synced_ = false;
  bool healthy_ = false;

  Notifier<const std::vector<ServiceName>&> services_changed_;
  Notifier<const std::vector<WorkloadName>&> workloads_changed_;
  Strand strand_;
  Subscription timer_;
};

}  // namespace

Result<std::unique_ptr<RemoteProvider>> make_remote_provider(const RemoteProviderOptions& options,
                                                             const RemoteProviderHost& host) {
  OSM_TRY(check_options(options));
  return std::unique_ptr<RemoteProvider>(std::make_unique<Provider>(options, host));
}

}  // namespace osm::inline v1::remote
