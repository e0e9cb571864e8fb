// A binary search for the candidate that makes a proxy refuse a mesh, as a state machine without
// I/O. Trial k is the mesh with the first k candidates and without the others; trial n, the whole
// mesh, was refused.
//
// The search finds the candidate whose addition turns an accepted mesh into a refused one. If
// several candidates are refused, it finds the first; searching again without it finds the next.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"

namespace osm::inline v1::nack_provenance {

class Bisection {
 public:
  // `likely`: sizes of groups at the end of the list, ascending, below the number of candidates.
  // The first trials leave out one group after the other, until one without a group is accepted;
  // the search goes on among that group. Each wrong guess costs one trial.
  explicit Bisection(std::size_t candidates, std::vector<std::size_t> likely = {})
      : candidates_(candidates), refused_(candidates), likely_(std::move(likely)) {}

  // Number of candidates that the next trial has; none: the search is over.
  std::optional<std::size_t> next() const {
    if (accepted_ == refused_) return std::nullopt;
    if (accepted_ == 0 && trials_ < likely_.size()) return candidates_ - likely_[trials_];
    return accepted_ + (refused_ - accepted_) / 2;
  }
  // Result of the trial next(). Precondition: next() has a value.
  void answered(bool accepted) {
    const std::optional<std::size_t> trial = next();
    OSM_CHECK(trial.has_value());
    ++trials_;
    if (accepted) {
      accepted_ = *trial + 1;
    } else {
      refused_ = *trial;
    }
  }

  // Index of the refused candidate once the search is over; none: the proxy refuses even the mesh
  // without all candidates, so none of them is the cause.
  std::optional<std::size_t> found() const {
    return next() || refused_ == 0 ? std::nullopt : std::optional(refused_ - 1);
  }

  // At most floor(log2(candidates)) + 1, and one more for each likely group.
  std::size_t trials() const { return trials_; }

 private:
  std::size_t candidates_;
  std::size_t accepted_ = 0;  // trials 0 to accepted_ - 1 count as accepted
  std::size_t refused_;       // the smallest trial that was refused
  std::size_t trials_ = 0;
  std::vector<std::size_t> likely_;
};

}  // namespace osm::inline v1::nack_provenance
