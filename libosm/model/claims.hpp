// The first object that claims a thing has it. Admission refuses the others, and whoever reads the
// objects leaves them out, with one sentence. Plain data; not thread-safe.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/links.hpp"
#include "osm/object.hpp"

namespace osm::inline v1::model {

class Owners {
 public:
  // False if another object took the claim before, which adds a problem of `object`.
  bool take(const ObjectKey& object, const Claim& claim, std::vector<Problem>& problems) {
    const auto [owner, first] = owners_.try_emplace({claim.service, claim.text}, object);
    if (first) return true;
    problems.push_back(
        {ErrorCode::kDuplicateObject, object, "", 0, claim.field,
         owner->second.str() + " already " + claim.text + " and is used; merge the two"});
    return false;
  }

 private:
  std::map<std::pair<ServiceName, std::string>, ObjectKey> owners_;
};

}  // namespace osm::inline v1::model
