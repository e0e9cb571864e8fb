#include "osm/values/object_status.hpp"

namespace osm::inline v1 {

std::string_view object_phase_text(ObjectPhase phase) {
  switch (phase) {
    case ObjectPhase::kRejected:
      return "Rejected";
    case ObjectPhase::kPending:
      return "Pending";
    case ObjectPhase::kRefused:
      return "Refused";
    case ObjectPhase::kApplied:
      return "Applied";
  }
  return "";
}

}  // namespace osm::inline v1
