#include "show.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/json.hpp"
#include "show_table.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

bool is_true(const json::value& map, std::string_view name) { return bool_at(map, name) == true; }

constexpr std::string_view kTypes[] = {"CDS", "EDS", "LDS", "RDS", "SDS"};

// Longest time for which the proxy has owed an answer, over all types.
std::string lag(const json::object& types) {
  std::int64_t longest = -1;
  for (const std::string_view type : kTypes) {
    const json::value* owed = member(map_at(types, type), "lag_ms");
    if (owed && owed->is_int64()) longest = std::max(longest, owed->get_int64());
  }
  return longest < 0 ? "-" : std::to_string(longest) + "ms";
}

std::string where(const json::value& object) {
  const std::string path = cell(object, "path");
  return path == "-" ? "" : path + ':' + cell(object, "line");
}

std::string problem_line(const json::value& problem) {
  const std::string place = where(problem);
  std::string line = cell(problem, "severity") + (place.empty() ? "" : ": " + place);
  for (const char* part : {"object", "field"})
    if (const std::string value = cell(problem, part); value != "-") line += ": " + value;
  return line + ": " + cell(problem, "cause") + " [" + cell(problem, "code") + "]\n";
}

std::string show_problems_that_matter(const json::value& answer) {
  std::string out;
  for (const json::value& problem : list_at(answer, "problems"))
    out += (out.empty() ? "Problems that may matter here:\n  " : "  ") + problem_line(problem);
  return out;
}

// A step's row; a denial says where its object is written.
std::vector<Row> step_rows(const json::value& steps_of) {
  std::vector<Row> rows;
  for (const json::value& step : list_at(steps_of, "steps")) {
    Row row{cell(step, "step"), cell(step, "effect"), cell(step, "object"), cell(step, "reason")};
    const std::string place = where(step);
    if (row[1] == "denies" && !place.empty())
      row[3] += " (" + place + ", " + cell(step, "field") + ')';
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string step_table(const std::vector<Row>& rows) {
  return rows.empty() ? "" : table({"STEP", "EFFECT", "OBJECT", "REASON"}, rows);
}

// Proxies that this controller made a certificate for and that have not come to it yet.
std::string expected_proxies(const json::value& answer) {
  std::string out;
  for (const json::value& proxy : list_at(answer, "expected"))
    if (!is_true(proxy, "claimed"))
      out += "Expected, not connected yet: " + cell(proxy, "common_name") + '\n';
  return out;
}

}  // namespace

std::string show_proxies(const json::value& answer) {
  const json::array& proxies = list_at(answer, "proxies");
  const std::string absent = expected_proxies(answer);
  if (proxies.empty()) return "No proxy is connected.\n" + absent;
  std::vector<Row> rows;
  std::string refusals;
  const bool of_replicas = member(proxies.front(), "replica") != nullptr;
  for (const json::value& proxy : proxies) {
    const json::object& types = map_at(proxy, "types");
    Row row{cell(proxy, "name"), cell(proxy, "identity"), joined(list_at(proxy, "services"))};
    for (const std::string_view type : kTypes) {
      const json::object& state = map_at(types, type);
      row.push_back(cell(state, "state"));
      if (const std::string nack = cell(state, "nack"); nack != "-")
        refusals += row[0] + " refused " + std::string(type) + ": " + nack + '\n';
    }
    row.push_back(lag(types));
    row.push_back(cell(proxy, "certificate_served_until"));
    if (of_replicas) row.push_back(cell(proxy, "replica"));
    rows.push_back(std::move(row));
  }
  Row header{"NAME", "IDENTITY", "SERVICES", "CDS", "EDS",
             "LDS",  "RDS",      "SDS",      "LAG", "SERVED UNTIL"};
  if (of_replicas) header.push_back("CONTROLLER");
  return table(header, rows) + refusals + absent;
}

std::string show_policy(const json::value& answer) {
  std::string out = std::string(is_true(answer, "allowed") ? "ALLOWED" : "DENIED") + " (" +
                    cell(answer, "mode") + " mode)\n" + cell(answer, "reason") + '\n';
  for (const json::value& object : list_at(answer, "deciding")) {
    out += "  " + cell(object, "object");
    if (const std::string place = where(object); !place.empty()) out += "  " + place;
    out += '\n';
    for (const json::value& route : list_at(object, "routes")) out += "    " + text(route) + '\n';
  }
  return out + show_problems_that_matter(answer);
}

std::string show_explanation(const json::value& answer) {
  const json::array& ways = list_at(answer, "ways");
  std::string verdict = cell(answer, "verdict");
  for (char& c : verdict) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool one = ways.size() == 1;
  std::string out = verdict + ": " +
                    (one ? cell(ways.front(), "answer")
                         : "each call takes one of " + std::to_string(ways.size()) + " ways") +
                    " (" + cell(answer, "mode") + " mode)\n";
  std::vector<Row> rows = step_rows(answer);
  if (one)
    for (Row& row : step_rows(ways.front())) rows.push_back(std::move(row));
  out += step_table(rows);
  if (!one)
    for (const json::value& way : ways)
      out += "Service " + cell(way, "service") + ", port " + cell(way, "port") + ", account " +
             cell(way, "account") + ": " + cell(way, "answer") + '\n' + step_table(step_rows(way));
  return out + show_problems_that_matter(answer);
}

std::string show_problems(const json::value& answer) {
  std::string out;
  for (const std::string_view severity : {"error", "warning", "notice"})
    for (const json::value& problem : list_at(answer, "problems"))
      if (cell(problem, "severity") == severity) out += problem_line(problem);
  return out.empty() ? "No problems.\n" : out;
}

std::string show_certificates(const json::value& answer) {
  std::vector<Row> rows = rows_of(
      answer, "certificates", {"common_name", "usage", "spiffe_id", "not_after", "fingerprint"});
  if (rows.empty()) return "No certificates have been issued since the controller started.\n";
  for (Row& row : rows) row.back().resize(std::min<std::size_t>(row.back().size(), 16));
  return table({"COMMON NAME", "USE", "IDENTITY", "ENDS", "FINGERPRINT"}, rows);
}

std::string show_roots(const json::value& answer) {
  std::vector<Row> rows = rows_of(answer, "roots",
                                  {"name", "state", "role", "trust_domain", "since", "not_after",
                                   "latest_not_after", "waiting_for", "left_behind"});
  for (Row& row : rows) {
    const std::string left_behind = row.back();
    row.pop_back();
    if (row.back() == "-" && left_behind != "-") row.back() = "went on without " + left_behind;
  }
  return table(
      {"ROOT", "STATE", "ROLE", "TRUST DOMAIN", "SINCE", "ENDS", "LAST SIGNED ENDS", "NOTE"}, rows);
}

std::string show_providers(const json::value& answer) {
  return table({"PROVIDER", "STATE", "REQUIRED", "CONTROLLER", "NOTE"},
               rows_of(answer, "providers", {"name", "state", "required", "replica", "failure"}));
}

std::string show_denied(const json::value& answer) {
  return table({"DENIED", "NAME", "OBJECT", "REASON"},
               rows_of(answer, "denied", {"kind", "name", "object", "reason"}));
}

std::string show_check(const json::value& findings) {
  std::vector<Row> rows;
  for (const std::string_view verdict : {"fault", "warning", "ok"})
    for (const json::value& finding : list_at(findings, "findings"))
      if (cell(finding, "verdict") == verdict)
        rows.push_back({cell(finding, "verdict"), cell(finding, "subject"), cell(finding, "text"),
                        cell(finding, "remedy")});
  return table({"VERDICT", "SUBJECT", "FINDING", "REMEDY"}, rows);
}

std::string show_graph(const json::value& answer) {
  const std::vector<Row> rows =
      rows_of(answer, "edges", {"source", "destination", "encryption", "object", "detail"});
  if (rows.empty()) return "Nobody may call anybody (" + cell(answer, "mode") + " mode).\n";
  return table({"CALLER", "CALLED", "ENCRYPTION", "OBJECT", "DETAIL"}, rows);
}

std::string show_namespaces(const json::value& answer) {
  const std::vector<Row> rows =
      rows_of(answer, "namespaces",
              {"name", "mesh", "sidecar_injection", "metrics", "pods", "pods_with_sidecar"});
  if (rows.empty()) return "No namespace is in a mesh; `osm namespace add` adds one.\n";
  return table({"NAMESPACE", "MESH", "SIDECAR-INJECTION", "METRICS", "PODS", "WITH SIDECAR"}, rows);
}

std::string show_meshes(const json::value& answer) {
  std::vector<Row> rows;
  for (const json::value& mesh : list_at(answer, "meshes")) {
    const json::array& controllers = list_at(mesh, "controllers");
    const auto ready = std::count_if(controllers.begin(), controllers.end(),
                                     [](const auto& pod) { return is_true(pod, "ready"); });
    rows.push_back({cell(mesh, "name"), cell(mesh, "namespace"), cell(mesh, "version"),
                    std::to_string(ready) + '/' + std::to_string(controllers.size()),
                    joined(list_at(mesh, "namespaces"))});
  }
  if (rows.empty()) return "No mesh is installed in this cluster; `osm install` installs one.\n";
  return table({"MESH", "CONTROL PLANE", "VERSION", "READY CONTROLLERS", "NAMESPACES"}, rows);
}

std::string show_objects(const json::value& answer) {
  return table({"NAMESPACE", "NAME", "VERSION"},
               rows_of(answer, "objects", {"namespace", "name", "version"}));
}

std::string show_status(const json::value& answer) {
  std::string out = cell(answer, "object") + ": " + cell(answer, "phase");
  if (is_true(answer, "removed")) out += " (it is not in the mesh)";
  out += "\ngeneration " + cell(answer, "generation") + ", applied by " + cell(answer, "applied") +
         " of " + cell(answer, "concerned") + " connected proxies\n";
  std::vector<Row> rows;
  for (const json::value& lag : list_at(answer, "lagging"))
    rows.push_back({cell(lag, "workload"), is_true(lag, "refused")
                                               ? "refused: " + cell(lag, "detail")
                                               : "has not answered"});
  if (!rows.empty()) out += table({"BEHIND", "WHY"}, rows);
  const auto add = [&](const char* said, const json::array& names) {
    if (!names.empty()) out += said + joined(names) + '\n';
  };
  add("Not connected: ", list_at(answer, "not_connected"));
  add("Controllers that have not read it yet: ", list_at(answer, "replicas_behind"));
  add("Controllers that cannot tell who has it: ", list_at(answer, "replicas_unknown"));
  if (!bool_at(answer, "replicas_known").value_or(true))
    out += "It is not known which other controllers live; `osm problems` says why.\n";
  for (const json::value& problem : list_at(answer, "problems")) out += problem_line(problem);
  return out;
}

}  // namespace osm::cli
