#include "osm/values/explanation.hpp"

#include <algorithm>
#include <string>

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
  if (allowed) return "policy allows the call";
  if (status == 0) return "the connection is closed";
  return std::to_string(status) + " from the sidecar";
}

namespace {

constexpr std::size_t kMostNamed = 3;  // number of addresses in a text

std::string list(const std::vector<std::string>& addresses, const std::string& suffix) {
  std::string out;
  for (std::size_t i = 0; i < std::min(addresses.size(), kMostNamed); ++i)
    out += (i == 0 ? "" : ", ") + addresses[i] + suffix;
  if (addresses.size() > kMostNamed)
    out += " and " + std::to_string(addresses.size() - kMostNamed) + " more";
  return out;
}

}  // namespace

std::string ExplainedWay::text() const {
  if (!answer.allowed) return answer.text();
  const std::string at = ':' + std::to_string(number(port));
  if (account.empty())
    return "policy lets the call leave the mesh" +
           (addresses.empty() ? "" : " to " + list(addresses, at));
  std::string out = "policy lets the call reach ";
  if (addresses.empty())
    return out + "workloads of " + account.str() + " at port " + std::to_string(number(port));
  out += list(addresses, at);
  if (not_connected.empty()) return out;
  if (not_connected.size() < addresses.size())
    return out + "; the proxies of " + list(not_connected, "") + " are not connected";
  return out + (addresses.size() == 1 ? ", whose proxy is" : ", whose proxies are") +
         " not connected";
}

CallVerdict Explanation::verdict() const {
  const auto allowed = [](const ExplainedWay& way) { return way.answer.allowed; };
  if (std::all_of(ways.begin(), ways.end(), allowed)) return CallVerdict::kAllowed;
  return std::any_of(ways.begin(), ways.end(), allowed) ? CallVerdict::kDepends
                                                        : CallVerdict::kDenied;
}

}  // namespace osm::inline v1
