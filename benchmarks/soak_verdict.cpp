#include "soak_verdict.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace osm::bench {
namespace {

using Iterator = std::vector<SoakSample>::const_iterator;

double median(Iterator begin, Iterator end, double SoakSample::*figure) {
  std::vector<double> values;
  for (; begin != end; ++begin) values.push_back((*begin).*figure);
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

std::vector<std::string> growth(const std::vector<SoakSample>& minutes, std::size_t warm_up,
                                const SoakBounds& bounds) {
  if (minutes.size() < warm_up + 2) return {"there are not two minutes after the warm-up"};
  const std::size_t after = minutes.size() - warm_up;
  const auto window = static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(after / 3, 1, 5));
  const auto first = minutes.begin() + static_cast<std::ptrdiff_t>(warm_up);
  std::vector<std::string> grown;
  const auto compare = [&](const char* name, double SoakSample::*figure, double bound, double unit,
                           const char* unit_name) {
    const double before = median(first, first + window, figure);
    const double now = median(minutes.end() - window, minutes.end(), figure);
    if (now > before + bound)
      grown.push_back(fmt::format("{} grew by {:.2f}{}, from {:.2f} to {:.2f}: more than {:.2f}",
                                  name, (now - before) / unit, unit_name, before / unit, now / unit,
                                  bound / unit));
  };
  compare("resident memory", &SoakSample::resident_bytes, bounds.resident_bytes, 1e6, " MB");
  compare("allocated memory", &SoakSample::allocated_bytes, bounds.allocated_bytes, 1e6, " MB");
  compare("the number of descriptors", &SoakSample::descriptors, bounds.descriptors, 1, "");
  compare("the number of threads", &SoakSample::threads, bounds.threads, 1, "");
  return grown;
}

}  // namespace osm::bench
