// Sets of paths that expressions accept.
#pragma once

#include <re2/re2.h>

#include <memory>
#include <string>

namespace osm::inline v1::migrate {

// False only if no path that the expression accepts has another form (model::kOtherPathForms), or
// if it accepts one text alone, which is then accepted in any form. Errs towards true.
bool may_accept_other_forms(const std::string& regex);

// The paths of one valid pathRegex.
class PathSet {
 public:
  explicit PathSet(const std::string& regex);

  // False only if no path is in both. Errs towards true.
  bool may_overlap(const PathSet& other) const;
  // The one accepted text; null: there are several, or it is not known.
  const std::string* only() const { return bounded_ && least_ == most_ ? &least_ : nullptr; }

 private:
  std::shared_ptr<const RE2> regex_;
  bool bounded_ = false;  // all accepted texts are from least_ to most_
  std::string least_, most_;
};

}  // namespace osm::inline v1::migrate
