#include "spec/field_texts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "model/ip_address.hpp"

namespace osm::inline v1::spec {
namespace {

struct Unit {
  std::string_view name;
  double seconds;
};
constexpr std::array kUnits{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                            Unit{"s", 1},     Unit{"m", 60},    Unit{"h", 3600}};

}  // namespace

std::optional<double> seconds_of(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double sum = 0;
  while (!text.empty()) {
    const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
    double amount = 0;
    const auto [stop, fault] = std::from_chars(text.data(), text.data() + digits, amount);
    if (fault != std::errc{} || stop != text.data() + digits) return std::nullopt;
    text.remove_prefix(digits);
    const auto letters = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& candidate) {
      return candidate.name == text.substr(0, letters);
    });
    if (unit == kUnits.end()) return std::nullopt;
    sum += amount * unit->seconds;
    text.remove_prefix(letters);
  }
  return sum;
}

bool is_network(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos || !model::is_ipv4(text.substr(0, slash))) return false;
  const std::string_view bits = text.substr(slash + 1);
  int length = -1;
  const auto [stop, fault] = std::from_chars(bits.data(), bits.data() + bits.size(), length);
  return fault == std::errc{} && stop == bits.data() + bits.size() && length >= 0 && length <= 32 &&
         (bits.size() == 1 || bits[0] != '0');
}

bool is_header_name(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || kMarks.find(c) != kMarks.npos;
  });
}

}  // namespace osm::inline v1::spec
