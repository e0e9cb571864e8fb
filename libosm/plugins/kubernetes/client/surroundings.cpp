#include "kubernetes/client/surroundings.hpp"

#include <fmt/format.h>

namespace osm::inline v1::kubernetes {

std::chrono::nanoseconds jittered(Rng& rng, std::chrono::nanoseconds delay) {
  const auto most = static_cast<std::uint64_t>(delay.count()) / 4 + 1;
  return delay + std::chrono::nanoseconds(static_cast<std::int64_t>(rng.next() % most));
}

std::string kubernetes_time(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::string kubernetes_micro_time(WallTime time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time).time_since_epoch() %
                      std::chrono::seconds(1);
  std::string text = kubernetes_time(time);
  text.pop_back();
  return text + fmt::format(".{:06}Z", micros.count());
}

}  // namespace osm::inline v1::kubernetes
