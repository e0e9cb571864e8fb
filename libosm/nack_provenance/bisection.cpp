#include "nack_provenance/bisection.hpp"

#include "base/check.hpp"

namespace osm::inline v1::nack_provenance {

Bisection::Bisection(std::size_t candidates, bool likely_last)
    : refused_(candidates), likely_last_(likely_last) {}

std::optional<std::size_t> Bisection::next() const {
  if (accepted_ == refused_) return std::nullopt;
  if (likely_last_ && trials_ == 0) return refused_ - 1;
  return accepted_ + (refused_ - accepted_) / 2;
}

void Bisection::answered(bool accepted) {
  const std::optional<std::size_t> trial = next();
  OSM_CHECK(trial.has_value());
  ++trials_;
  if (accepted) {
    accepted_ = *trial + 1;
  } else {
    refused_ = *trial;
  }
}

std::optional<std::size_t> Bisection::found() const {
  if (next() || refused_ == 0) return std::nullopt;
  return refused_ - 1;
}

}  // namespace osm::inline v1::nack_provenance
