#include "osm/values/explanation.hpp"

#include <algorithm>

namespace osm::inline v1 {

std::string_view step_effect_text(StepEffect effect) {
  switch (effect) {
    case StepEffect::kAllows:
      return "allows";
    case StepEffect::kDenies:
      return "denies";
    case StepEffect::kNotes:
      break;
  }
  return "notes";
}

std::string_view call_verdict_text(CallVerdict verdict) {
  switch (verdict) {
    case CallVerdict::kAllowed:
      return "allowed";
    case CallVerdict::kDenied:
      return "denied";
    case CallVerdict::kDepends:
      break;
  }
  return "depends";
}

std::string CallAnswer::text() const {
  if (allowed) return "the application answers";
  if (status == 0) return "the connection is closed";
  return std::to_string(status) + " from the sidecar";
}

CallVerdict Explanation::verdict() const {
  const auto allowed = [](const ExplainedWay& way) { return way.answer.allowed; };
  if (std::all_of(ways.begin(), ways.end(), allowed)) return CallVerdict::kAllowed;
  return std::any_of(ways.begin(), ways.end(), allowed) ? CallVerdict::kDepends
                                                        : CallVerdict::kDenied;
}

}  // namespace osm::inline v1
