// Which of many changed objects makes a proxy refuse: a binary search, as a state machine without
// I/O. Trial k is the mesh with the first k suspects at their new version and the others as they
// were before; the whole change, trial n, was refused.
//
// What is found is the suspect whose addition turns an accepted mesh into a refused one. With
// several culprits it is the first of them; the others are found by searching again without it.
#pragma once

#include <cstddef>
#include <optional>

namespace osm::inline v1::nack_provenance {

class NackInquest {
 public:
  // With `likely_last`, the last suspect stands out: it is tried first whether the mesh without it
  // is accepted. That takes one trial when it is the only culprit, one more than else when not.
  explicit NackInquest(std::size_t suspects, bool likely_last = false);

  // How many suspects the next trial has at their new version; none: the search is over.
  std::optional<std::size_t> next() const;
  // What the proxy said to next(). Precondition: next().
  void answered(bool accepted);

  // The index of the culprit once the search is over; none: even the mesh as it was before is
  // refused, so the cause is no object that changed.
  std::optional<std::size_t> culprit() const;

  // At most floor(log2(suspects)) + 1, with `likely_last` one more.
  std::size_t trials() const { return trials_; }

 private:
  std::size_t accepted_ = 0;  // that many trials, from the smallest, are known to be accepted
  std::size_t refused_;       // the smallest trial that is known to be refused
  std::size_t trials_ = 0;
  bool likely_last_;
};

}  // namespace osm::inline v1::nack_provenance
