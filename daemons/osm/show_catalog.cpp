// The catalog's answers as people read them.
#include <map>

#include "base/json.hpp"
#include "show.hpp"
#include "show_table.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

// `none`: the text if there are none.
std::string service_table(const json::value& answer, const char* none) {
  const std::vector<Row> rows =
      rows_of(answer, "services", {"service", "port_name", "port", "target_port", "protocol"});
  if (rows.empty()) return none;
  return table({"SERVICE", "PORT NAME", "PORT", "TARGET PORT", "PROTOCOL"}, rows);
}

constexpr const char* kPermissive =
    "Permissive mode: any account that is not denied may call any other; TrafficTargets have no "
    "effect.\n";

bool is_permissive(const json::value& answer) { return text_at(answer, "mode") == "permissive"; }

}  // namespace

std::string show_expected(const json::value& answer) {
  const std::vector<Row> rows =
      rows_of(answer, "expected", {"namespace", "uuid", "common_name", "not_after", "claimed"});
  if (rows.empty()) return "No proxy is expected.\n";
  return table({"NAMESPACE", "UUID", "COMMON NAME", "ENDS", "CLAIMED"}, rows);
}

std::string show_participants(const json::value& answer) {
  std::map<std::string, Row> known;  // by UUID
  for (const json::value& proxy : list_at(answer, "proxies"))
    known.try_emplace(cell(proxy, "uuid"),
                      Row{cell(proxy, "name"), cell(proxy, "uuid"), cell(proxy, "identity"),
                          joined(list_at(proxy, "services"))});
  std::vector<Row> rows;
  for (const json::value& uuid : list_at(answer, "participants"))
    rows.push_back(known.try_emplace(text(uuid), Row{"-", text(uuid), "-", "-"}).first->second);
  if (rows.empty()) return "No proxy is a participant.\n";
  return table({"NAME", "UUID", "IDENTITY", "SERVICES"}, rows);
}

std::string show_services(const json::value& answer) {
  return service_table(answer, "No Service selects its workload.\n");
}

std::string show_policies(const json::value& answer) {
  std::vector<Row> rows;
  for (const json::value& policy : list_at(answer, "policies")) {
    const json::array& routes = list_at(policy, "routes");
    rows.push_back({cell(policy, "object"), cell(policy, "source"), cell(policy, "destination"),
                    joined(list_at(policy, "destination_services")),
                    routes.empty() ? "opens nothing" : joined(routes)});
  }
  const std::string out = is_permissive(answer) ? kPermissive : "";
  if (rows.empty()) return out + "No TrafficTarget is in the mesh.\n";
  return out + table({"OBJECT", "SOURCE", "DESTINATION", "SERVICES", "ROUTES"}, rows);
}

std::string show_service(const json::value& answer) {
  std::string out = "Service " + cell(answer, "service") +
                    ", accounts: " + joined(list_at(answer, "identities")) + '\n';
  const std::vector<Row> endpoints =
      rows_of(answer, "endpoints",
              {"address", "port", "service_port", "identity", "zone", "weight", "provider"});
  out += endpoints.empty()
             ? "Clients are sent no endpoint; `osm problems` and `osm providers` may say why.\n"
             : table({"ADDRESS", "PORT", "SERVICE PORT", "IDENTITY", "ZONE", "WEIGHT", "PROVIDER"},
                     endpoints);
  std::vector<Row> callers;
  for (const json::value& caller : list_at(answer, "ingress")) {
    const bool anywhere = member(caller, "networks") == nullptr;
    callers.push_back({cell(caller, "object"), cell(caller, "target_port"),
                       cell(caller, "encryption"),
                       anywhere ? "any" : joined(list_at(caller, "networks")),
                       joined(list_at(caller, "principals"))});
  }
  if (callers.empty()) return out;
  return out + "Callers from outside of the mesh:\n" +
         table({"OBJECT", "PORT", "ENCRYPTION", "ADDRESSES", "CERTIFICATES"}, callers);
}

std::string show_identity(const json::value& answer) {
  std::string out = "Account " + cell(answer, "identity") + '\n';
  // A denied account has no peers in either mode.
  if (is_permissive(answer) && !list_at(answer, "inbound").empty()) {
    out += kPermissive;
  } else {
    out += "Called by: " + joined(list_at(answer, "inbound")) + '\n' +
           "Calls:     " + joined(list_at(answer, "outbound")) + '\n';
  }
  return out + service_table(answer, "It runs no Service.\n");
}

}  // namespace osm::cli
