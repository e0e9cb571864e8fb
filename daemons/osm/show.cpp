#include "show.hpp"

#include <string_view>

#include "table.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

// An answer of another version may lack a field: it shows as "-", never as a crash.
const json::value& field(const json::value& object, std::string_view name) {
  static const json::value kMissing;
  const json::object* fields = object.if_object();
  const json::value* found = fields ? fields->if_contains(name) : nullptr;
  return found ? *found : kMissing;
}

std::string text(const json::value& value) {
  if (value.is_string()) return value.as_string().empty() ? "-" : printable(value.as_string());
  if (value.is_int64()) return std::to_string(value.as_int64());
  if (value.is_uint64()) return std::to_string(value.as_uint64());
  if (value.is_bool()) return value.as_bool() ? "yes" : "no";
  return "-";
}

const json::array& items(const json::value& value) {
  static const json::array kNone;
  return value.is_array() ? value.as_array() : kNone;
}

std::string joined(const json::value& list) {
  std::string out;
  for (const json::value& item : items(list)) out += (out.empty() ? "" : ", ") + text(item);
  return out.empty() ? "-" : out;
}

constexpr std::string_view kTypes[] = {"CDS", "EDS", "LDS", "RDS", "SDS"};

// Longest time for which the proxy has owed an answer, over all types.
std::string lag(const json::value& types) {
  std::int64_t longest = -1;
  for (const std::string_view type : kTypes) {
    const json::value& owed = field(field(types, type), "lag_ms");
    if (owed.is_number()) longest = std::max(longest, owed.to_number<std::int64_t>());
  }
  return longest < 0 ? "-" : std::to_string(longest) + "ms";
}

std::string where(const json::value& object) {
  const std::string path = text(field(object, "path"));
  return path == "-" ? "" : path + ':' + text(field(object, "line"));
}

std::string problem_line(const json::value& problem) {
  std::string line = where(problem);
  for (const char* part : {"object", "field"}) {
    const std::string value = text(field(problem, part));
    if (value != "-") line += (line.empty() ? "" : ": ") + value;
  }
  return line + ": " + text(field(problem, "cause")) + " [" + text(field(problem, "code")) + "]\n";
}

// Proxies that this controller made a certificate for and that have not come to it yet.
std::string expected_proxies(const json::value& answer) {
  std::string out;
  for (const json::value& proxy : items(field(answer, "expected"))) {
    const json::value& claimed = field(proxy, "claimed");
    if (claimed.is_bool() && claimed.as_bool()) continue;
    out += "Expected, not connected yet: " + text(field(proxy, "common_name")) + '\n';
  }
  return out;
}

}  // namespace

std::string show_proxies(const json::value& answer) {
  const json::array& proxies = items(field(answer, "proxies"));
  const std::string absent = expected_proxies(answer);
  if (proxies.empty()) return "No proxy is connected.\n" + absent;
  std::vector<Row> rows;
  std::string refusals;
  for (const json::value& proxy : proxies) {
    const json::value& types = field(proxy, "types");
    Row row{text(field(proxy, "name")), text(field(proxy, "identity")),
            joined(field(proxy, "services"))};
    for (const std::string_view type : kTypes) {
      const json::value& state = field(types, type);
      row.push_back(text(field(state, "state")));
      if (const std::string nack = text(field(state, "nack")); nack != "-") {
        refusals += row[0] + " refused " + std::string(type) + ": " + nack + '\n';
      }
    }
    row.push_back(lag(types));
    row.push_back(text(field(proxy, "certificate_not_after")));
    rows.push_back(std::move(row));
  }
  return table({"NAME", "IDENTITY", "SERVICES", "CDS", "EDS", "LDS", "RDS", "SDS", "LAG",
                "CERTIFICATE ENDS"},
               rows) +
         refusals + absent;
}

std::string show_policy(const json::value& answer) {
  const json::value& verdict = field(answer, "allowed");
  const bool allowed = verdict.is_bool() && verdict.as_bool();
  std::string out = std::string(allowed ? "ALLOWED" : "DENIED") + " (" +
                    text(field(answer, "mode")) + " mode)\n" + text(field(answer, "reason")) + '\n';
  for (const json::value& object : items(field(answer, "deciding"))) {
    out += "  " + text(field(object, "object"));
    if (const std::string place = where(object); !place.empty()) out += "  " + place;
    out += '\n';
    for (const json::value& route : items(field(object, "routes"))) {
      out += "    " + text(route) + '\n';
    }
  }
  if (const json::array& problems = items(field(answer, "problems")); !problems.empty()) {
    out += "Problems that may matter here:\n";
    for (const json::value& problem : problems) out += "  " + problem_line(problem);
  }
  return out;
}

std::string show_problems(const json::value& answer) {
  std::string out;
  for (const json::value& problem : items(field(answer, "problems"))) out += problem_line(problem);
  return out.empty() ? "No problems.\n" : out;
}

std::string show_certificates(const json::value& answer) {
  std::vector<Row> rows;
  for (const json::value& certificate : items(field(answer, "certificates"))) {
    rows.push_back({text(field(certificate, "common_name")), text(field(certificate, "usage")),
                    text(field(certificate, "spiffe_id")), text(field(certificate, "not_after")),
                    text(field(certificate, "fingerprint")).substr(0, 16)});
  }
  if (rows.empty()) return "No certificates have been issued since the controller started.\n";
  return table({"COMMON NAME", "USE", "IDENTITY", "ENDS", "FINGERPRINT"}, rows);
}

std::string show_roots(const json::value& answer) {
  std::vector<Row> rows;
  for (const json::value& root : items(field(answer, "roots")))
    rows.push_back({text(field(root, "name")), text(field(root, "state")),
                    text(field(root, "role")), text(field(root, "trust_domain")),
                    text(field(root, "since")), text(field(root, "waiting_for"))});
  return table({"ROOT", "STATE", "ROLE", "TRUST DOMAIN", "SINCE", "NOTE"}, rows);
}

std::string show_status(const json::value& answer) {
  std::string out = text(field(answer, "object")) + ": " + text(field(answer, "phase"));
  const json::value& removed = field(answer, "removed");
  if (removed.is_bool() && removed.as_bool()) out += " (it is not in the mesh)";
  out += "\ngeneration " + text(field(answer, "generation")) + ", applied by " +
         text(field(answer, "applied")) + " of " + text(field(answer, "concerned")) +
         " connected proxies\n";
  std::vector<Row> rows;
  for (const json::value& lag : items(field(answer, "lagging"))) {
    const json::value& refused = field(lag, "refused");
    rows.push_back({text(field(lag, "workload")), refused.is_bool() && refused.as_bool()
                                                      ? "refused: " + text(field(lag, "detail"))
                                                      : "has not answered"});
  }
  if (!rows.empty()) out += table({"BEHIND", "WHY"}, rows);
  const std::string absent = joined(field(answer, "not_connected"));
  if (absent != "-") out += "Not connected: " + absent + '\n';
  for (const json::value& problem : items(field(answer, "problems"))) out += problem_line(problem);
  return out;
}

}  // namespace osm::cli
