#include "osm/host/stale_replica.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/json.hpp"
#include "base/strand.hpp"
#include "host/freshness.hpp"
#include "osm/net/http_client.hpp"
#include "osm/runtime/lanes.hpp"

namespace osm::inline v1::host {
namespace {

constexpr Gauge kReplicaStaleness{
    "osm_replica_staleness_seconds",
    "Seconds since this replica last proved that it reaches the API server"};

constexpr const char* kTopic = "address";
constexpr std::chrono::seconds kTurn{2};
constexpr std::chrono::milliseconds kAnswerTime{1000};
constexpr std::size_t kMaxAnswer = 4096;

class FreshnessWatch final : public StaleReplicaGuard {
 public:
  explicit FreshnessWatch(const StaleReplicaOptions& options);
  ~FreshnessWatch() override { strand_.stop(); }

  void announce(const net::Address& address) override;
  bool stale() const override { return freshness_.stale(); }
  Status admits() const override { return freshness_.admits(); }

 private:
  void tick();
  void ask_others();
  std::optional<Freshness::Answer> ask(const Freshness::Peer& peer) const;

  const StaleReplicaOptions options_;
  Freshness freshness_;
  bool refusing_ = false;
  net::Lane waiting_;  // waits for other replicas
  Strand strand_;
  Subscription timer_;
};

FreshnessWatch::FreshnessWatch(const StaleReplicaOptions& options)
    : options_(options),
      freshness_(options.runtime.clock, options.stale_after),
      waiting_(options.runtime.lanes(), {.name = "other replicas"}),
      strand_(waiting_) {
  if (options_.board != nullptr) strand_.post([this] { tick(); });
}

void FreshnessWatch::announce(const net::Address& address) {
  if (options_.board == nullptr) return;
  if (Status told = options_.board->publish(kTopic, address.str()); !told.ok())
    options_.runtime.log.warning("the other replicas are not told this one's address",
                                 {{"cause", told.error().text()}});
}

void FreshnessWatch::tick() {
  freshness_.confirmed(options_.board->confirmed_at());
  if (auto others = options_.board->read(kTopic); others.ok()) {
    others->erase(options_.replica);
    freshness_.listed(*others);
  }
  if (freshness_.stale()) ask_others();
  options_.runtime.metrics.set(kReplicaStaleness, {}, freshness_.staleness());
  const Status admits = freshness_.admits();
  if (std::exchange(refusing_, !admits.ok()) == admits.ok()) {
    if (refusing_)
      options_.runtime.log.warning("this replica is stale: it is not ready, and admits no proxies",
                                   {{"code", "stale-replica"}, {"cause", admits.error().message}});
    else
      options_.runtime.log.info("this replica admits proxies again");
  }
  timer_ = strand_.post_after(kTurn, [this] { tick(); });
}

// One that is fresh and admits proxies is enough.
void FreshnessWatch::ask_others() {
  for (const Freshness::Peer& peer : freshness_.peers())
    if (freshness_.answered(peer.replica, ask(peer))) return;
}

std::optional<Freshness::Answer> FreshnessWatch::ask(const Freshness::Peer& peer) const {
  auto address = net::parse_address(peer.address);
  if (!address.ok() || address->is_unix()) return std::nullopt;
  const auto client = net::HttpClient::create({.address = *std::move(address),
                                               .connect_timeout = kAnswerTime,
                                               .blocking = &options_.runtime.blocking},
                                              options_.runtime.asio());
  const auto answer = client->call(
      {.target = "/version", .deadline = kAnswerTime, .max_response_bytes = kMaxAnswer});
  if (!answer.ok() || answer->status != 200) return std::nullopt;
  const auto said = parse_json_object(answer->body, "an answer");
  if (!said.ok()) return std::nullopt;
  return Freshness::Answer{.replica = text_at(*said, "replica"),
                           .generation = number_at(*said, "generation"),
                           .stale = bool_at(*said, "stale").value_or(true),
                           .admits = bool_at(*said, "admits").value_or(false)};
}

}  // namespace

Result<std::unique_ptr<StaleReplicaGuard>> StaleReplicaGuard::start(
    const StaleReplicaOptions& options) {
  if (options.stale_after < kLeast)
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("stale_after: {} seconds are too few; set {} or more",
                             options.stale_after.count(), kLeast.count())};
  return std::unique_ptr<StaleReplicaGuard>(std::make_unique<FreshnessWatch>(options));
}

}  // namespace osm::inline v1::host
