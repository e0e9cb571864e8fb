#include "base/times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "base/check.hpp"

namespace osm::inline v1 {

std::string rfc3339(WallTime time, int decimals) {
  OSM_CHECK(decimals == 0 || decimals == 3 || decimals == 6);
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::microseconds>(time - day));
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (decimals == 3) text += fmt::format(".{:03}", clock.subseconds().count() / 1000);
  if (decimals == 6) text += fmt::format(".{:06}", clock.subseconds().count());
  return text + 'Z';
}

std::optional<WallTime> time_of(const ASN1_TIME* time) {
  std::tm utc{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &utc) != 1) return std::nullopt;
  // 64 bits of nanoseconds end in 2262.
  constexpr std::int64_t kFarthest = 9'000'000'000;
  return WallTime{
      std::chrono::seconds(std::clamp<std::int64_t>(::timegm(&utc), -kFarthest, kFarthest))};
}

}  // namespace osm::inline v1
