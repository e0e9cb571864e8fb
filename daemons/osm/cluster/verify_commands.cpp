// `osm verify`: one connection of the mesh, checked step by step.
#include <boost/json/array.hpp>
#include <memory>
#include <string>

#include "base/json.hpp"
#include "cluster/commands.hpp"
#include "cluster/findings.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

struct Connection {
  std::string source, destination, service, port, path = "/", method = "GET", host, certificate;
};

struct Verification {
  Findings findings;
  bool denied = false;  // by a policy
};

int report(const Flags& flags, const Verification& verified) {
  const int code = print_findings(flags, verified.findings);
  return code == kFailed && verified.denied ? kDenied : code;
}

// Findings about the proxy of a workload. Result: the proxy; null: it is not connected.
const json::value* verify_proxy(const json::value& proxies, const std::string& workload,
                                Findings& findings) {
  for (const json::value& proxy : list_at(proxies, "proxies")) {
    if (text_at(proxy, "name") != workload) continue;
    for (const auto& [type, state] : map_at(proxy, "types"))
      if (const std::string nack = text_at(state, "nack"); !nack.empty())
        findings.push_back({Verdict::kFault, "Proxy " + workload,
                            "it refuses its configuration: " + std::string(type) + ": " + nack,
                            "osm problems names the object"});
    findings.push_back({Verdict::kFine, "Proxy " + workload,
                        "connected as " + text_at(proxy, "identity") +
                            ", served with its certificate until " +
                            text_at(proxy, "certificate_served_until")});
    return &proxy;
  }
  findings.push_back(
      {Verdict::kFault, "Proxy " + workload, "it is not connected to a controller",
       "is it running, with a sidecar? osm check shows pods without one; osm proxy list shows the "
       "connected ones"});
  return nullptr;
}

// The steps of an explanation that deny, or all of them in one line if none does.
void add_steps(const json::value& explanation, const std::string& subject, Verification& to) {
  const auto add = [&](const json::array& steps) {
    for (const json::value& step : steps) {
      if (text_at(step, "effect") != "denies") continue;
      to.denied = true;
      const std::string object = text_at(step, "object");
      to.findings.push_back({Verdict::kFault, object.empty() ? subject : object,
                             text_at(step, "reason"), "osm policy explain shows each step"});
    }
  };
  add(list_at(explanation, "steps"));
  for (const json::value& way : list_at(explanation, "ways")) add(list_at(way, "steps"));
  if (!to.denied) to.findings.push_back({Verdict::kFine, subject, "policies allow it"});
}

Status verify_call(const AdminClient& client, const Connection& call, const std::string& source,
                   const std::string& destination, Verification& to) {
  const std::string subject = "Call from " + source + " to " + destination;
  OSM_TRY(const json::value explanation,
          client.get("/v1/policy/explain", {{"source", source},
                                            {"destination", destination},
                                            {"port", call.port},
                                            {"method", call.method},
                                            {"path", call.path},
                                            {"host", call.host},
                                            {"certificate", call.certificate},
                                            {"headers", ""}}));
  add_steps(explanation, subject, to);
  return {};
}

// Without a port and a Service only the accounts count.
Status verify_accounts(const AdminClient& client, const std::string& source,
                       const std::string& destination, Verification& to) {
  OSM_TRY(const json::value decision,
          client.get("/v1/policy/check", {{"source", source}, {"destination", destination}}));
  const bool allowed = bool_at(decision, "allowed").value_or(false);
  to.denied = !allowed;
  to.findings.push_back(
      {allowed ? Verdict::kFine : Verdict::kFault, "Call from " + source + " to " + destination,
       text_at(decision, "reason"),
       allowed ? "" : "--to-port names a port of the pod, for a full explanation"});
  return {};
}

Status verify_policy(const AdminClient& client, const Connection& call, const json::value& from,
                     const json::value* to, Verification& verified) {
  const std::string source = text_at(from, "identity");
  std::string service = call.service;
  if (service.empty()) {
    const std::string account = text_at(*to, "identity");
    const json::array& services = list_at(*to, "services");
    if (services.size() != 1 && call.port.empty())
      return verify_accounts(client, source, account, verified);
    service = services.size() == 1 && services[0].is_string()
                  ? "service:" + std::string(services[0].as_string())
                  : "account:" + account;
  }
  return verify_call(client, call, "account:" + source, service, verified);
}

int verify_connectivity(const Flags& flags, const Connection& call) {
  const AdminClient client = flags.client();
  const auto proxies = client.get("/v1/proxies");
  if (!proxies.ok()) return fail(flags, proxies.error());
  Verification verified;
  const json::value* from = verify_proxy(*proxies, call.source, verified.findings);
  const json::value* to = call.destination.empty()
                              ? nullptr
                              : verify_proxy(*proxies, call.destination, verified.findings);
  if (from && (to || call.destination.empty())) {
    const Status told = verify_policy(client, call, *from, to, verified);
    if (!told.ok()) return fail(flags, told.error());
  }
  return report(flags, verified);
}

int verify_ingress(const Flags& flags, const Connection& call) {
  Verification verified;
  const Status told = verify_call(flags.client(), call, "gateway:" + call.source,
                                  "service:" + call.service, verified);
  return told.ok() ? report(flags, verified) : fail(flags, told.error());
}

void add_request(CLI::App& app, Connection& call) {
  app.add_option("--to-port", call.port, "Dialled port (default: the only one)");
  app.add_option("--method", call.method, "Method of the HTTP request")->capture_default_str();
  app.add_option("--path", call.path, "Path of the HTTP request")->capture_default_str();
  app.add_option("--host", call.host, "Host header of the HTTP request");
}

void add_connectivity(CLI::App& verify, Flags& flags) {
  auto call = std::make_shared<Connection>();
  CLI::App* app = command(verify, flags, "connectivity",
                          "Check one call: both proxies, and the policies between them",
                          "osm verify connectivity --from-pod shop/web-7d9c4-x2x7k \\\n"
                          "      --to-pod shop/api-5f6b-q8k2p --to-service shop/api\n"
                          "  osm verify connectivity --from-pod shop/web-7d9c4-x2x7k \\\n"
                          "      --to-service host:example.com --to-port 443");
  app->add_option("--from-pod", call->source, "NAMESPACE/NAME of the pod or machine that calls")
      ->required();
  app->add_option("--to-pod", call->destination, "NAMESPACE/NAME of the one that is called");
  app->add_option(
      "--to-service", call->service,
      "NAMESPACE/NAME of the Service that is dialled, or host:NAME outside of the mesh\n"
      "(default: the Service of --to-pod, if it has one)");
  add_request(*app, *call);
  app->callback([&flags, call] {
    if (call->destination.empty() && call->service.empty())
      throw CLI::RequiredError("--to-pod or --to-service");
    flags.exit_code = verify_connectivity(flags, *call);
  });
}

void add_ingress(CLI::App& verify, Flags& flags) {
  auto call = std::make_shared<Connection>();
  CLI::App* app =
      command(verify, flags, "ingress", "Check a call from a gateway outside of the mesh",
              "osm verify ingress --from-address 198.51.100.7 --to-service shop/api \\\n"
              "      --to-port 8080");
  app->add_option("--from-address", call->source, "IP address of the gateway")->required();
  app->add_option("--to-service", call->service, "NAMESPACE/NAME of the backend's Service")
      ->required();
  app->add_option("--certificate", call->certificate,
                  "The DNS name or URI in the gateway's client certificate (default: none)");
  add_request(*app, *call);
  app->callback([&flags, call] { flags.exit_code = verify_ingress(flags, *call); });
}

}  // namespace

void add_verify(CLI::App& root, Flags& flags) {
  CLI::App* verify = root.add_subcommand("verify",
                                         "Check one call step by step; exit code 3 if a policy "
                                         "denies it, 1 if it fails otherwise")
                         ->require_subcommand(1);
  add_connectivity(*verify, flags);
  add_ingress(*verify, flags);
}

}  // namespace osm::cli
