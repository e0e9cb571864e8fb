#include "cluster/findings.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>
#include <string>

#include "base/json.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

Verdict verdict_of(const std::string& severity) {
  if (severity == "error") return Verdict::kFault;
  return severity == "warning" ? Verdict::kWarning : Verdict::kFine;
}

Status add_problems(const AdminClient& client, Findings& findings) {
  OSM_TRY(const json::value answer, client.get("/v1/problems"));
  const json::array& problems = list_at(answer, "problems");
  for (const json::value& problem : problems) {
    const std::string object = text_at(problem, "object"), code = text_at(problem, "code");
    const Verdict verdict = verdict_of(text_at(problem, "severity"));
    if (verdict == Verdict::kFine) continue;
    const std::string field = text_at(problem, "field");
    findings.push_back({verdict, object.empty() ? text_at(problem, "path") : object,
                        (field.empty() ? "" : field + ": ") + text_at(problem, "cause"),
                        "see `osm support error-info " + code + "`"});
  }
  findings.push_back(
      {Verdict::kFine, "Controllers",
       std::to_string(problems.size()) + " problems with objects, notices included"});
  return {};
}

Result<std::optional<std::set<std::string>>> add_proxies(const AdminClient& client,
                                                         Findings& findings) {
  OSM_TRY(const json::value answer, client.get("/v1/proxies"));
  std::size_t behind = 0;
  std::set<std::string> connected;
  const json::array& proxies = list_at(answer, "proxies");
  for (const json::value& proxy : proxies) {
    connected.insert(text_at(proxy, "uuid"));
    std::string refused;
    bool lags = false;
    for (const auto& [type, state] : map_at(proxy, "types")) {
      if (const std::string nack = text_at(state, "nack"); !nack.empty())
        refused = std::string(type) + ": " + nack;
      lags = lags || number_at(state, "lag_ms") > 10'000;
    }
    if (!refused.empty())
      findings.push_back({Verdict::kFault, "Proxy " + text_at(proxy, "name"),
                          "it refuses its configuration: " + refused,
                          "osm problems names the object; the proxy goes on with its last one"});
    behind += lags ? 1 : 0;
  }
  if (behind > 0)
    findings.push_back({Verdict::kWarning, "Proxies",
                        std::to_string(behind) + " have owed an answer for more than 10 seconds",
                        "osm proxy list shows them, in the column LAG"});
  findings.push_back(
      {Verdict::kFine, "Proxies", std::to_string(proxies.size()) + " are connected"});
  if (!list_at(answer, "unanswered").empty()) return std::optional<std::set<std::string>>();
  return std::optional(std::move(connected));
}

// A provider that is required and not synced keeps the controller from being ready.
Status add_providers(const AdminClient& client, Findings& findings) {
  OSM_TRY(const json::value answer, client.get("/v1/providers"));
  for (const json::value& provider : list_at(answer, "providers")) {
    const std::string state = text_at(provider, "state"), failure = text_at(provider, "failure");
    if (state == "current") continue;
    const bool holds = state == "not synced" && bool_at(provider, "required").value_or(false);
    std::string text = "it is " + state;
    if (holds) text += ", and the controller is not ready until it is synced";
    if (state == "stale") text += ": its last endpoints stay in use";
    if (!failure.empty()) text += ": " + failure;
    findings.push_back({holds ? Verdict::kFault : Verdict::kWarning,
                        "Provider " + text_at(provider, "name"), std::move(text),
                        "`osm problems` and the controller's log say what it waits for"});
  }
  return {};
}

const char* word_of(Verdict verdict) {
  if (verdict == Verdict::kFine) return "ok";
  return verdict == Verdict::kWarning ? "warning" : "fault";
}

json::object as_json(const Findings& findings) {
  json::array list;
  for (const Finding& finding : findings)
    list.push_back(json::object{{"verdict", word_of(finding.verdict)},
                                {"subject", finding.subject},
                                {"text", finding.text},
                                {"remedy", finding.remedy}});
  return {{"findings", std::move(list)}};
}

}  // namespace

Result<std::optional<std::set<std::string>>> check_mesh(const AdminClient& client,
                                                        Findings& findings) {
  OSM_TRY(add_problems(client, findings));
  OSM_TRY(add_providers(client, findings));
  return add_proxies(client, findings);
}

int print_findings(const Flags& flags, const Findings& findings, bool strict) {
  const json::object told = as_json(findings);
  std::cout << (flags.for_programs() ? flags.written(told) : show_check(told));
  if (!std::cout.flush()) return kFailed;
  for (const Finding& finding : findings)
    if (finding.verdict == Verdict::kFault || (strict && finding.verdict == Verdict::kWarning))
      return kFailed;
  return kDone;
}

}  // namespace osm::cli
