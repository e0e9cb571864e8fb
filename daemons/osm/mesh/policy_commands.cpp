// `osm policy`: decisions about calls, with the objects that decide.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "mesh/commands.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

void add_check_accounts(CLI::App& policy, Flags& flags) {
  struct Options {
    std::string source, destination;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app =
      command(policy, flags, "check",
              "Check if an account may call another, and name the object that decides;\n"
              "exit code 3 if it may not",
              "osm policy check bookbuyer/bookbuyer bookstore/bookstore");
  app->add_option("SOURCE", options->source, "NAMESPACE/ACCOUNT that calls")->required();
  app->add_option("DESTINATION", options->destination, "NAMESPACE/ACCOUNT that is called")
      ->required();
  app->callback([&flags, options] {
    const auto answer = flags.client().get(
        "/v1/policy/check", {{"source", options->source}, {"destination", options->destination}});
    flags.exit_code = print(flags, answer, show_policy);
    if (answer.ok() && !bool_at(*answer, "allowed").value_or(false)) flags.exit_code = kDenied;
  });
}

// Result: the account of the proxy of that workload. Failure: the client's; kNotFound.
Result<std::string> account_of(const json::value& proxies, const std::string& workload) {
  for (const json::value& proxy : list_at(proxies, "proxies"))
    if (text_at(proxy, "name") == workload) return text_at(proxy, "identity");
  return Error{ErrorCode::kNotFound,
               "no proxy of " + workload +
                   " is connected: write NAMESPACE/NAME of a pod or machine with a sidecar; `osm "
                   "proxy list` shows them"};
}

Result<json::value> check_pods(const AdminClient& client, const std::string& source,
                               const std::string& destination) {
  OSM_TRY(const json::value proxies, client.get("/v1/proxies"));
  OSM_TRY(const std::string from, account_of(proxies, source));
  OSM_TRY(const std::string to, account_of(proxies, destination));
  return client.get("/v1/policy/check", {{"source", from}, {"destination", to}});
}

void add_check_pods(CLI::App& policy, Flags& flags) {
  auto pods = std::make_shared<std::pair<std::string, std::string>>();
  CLI::App* app = command(policy, flags, "check-pods",
                          "Check if a pod or machine may call another, by their accounts;\n"
                          "exit code 3 if it may not",
                          "osm policy check-pods shop/web-7d9c4-x2x7k shop/api-5f6b-q8k2p");
  app->add_option("SOURCE", pods->first, "NAMESPACE/NAME of the pod that calls")->required();
  app->add_option("DESTINATION", pods->second, "NAMESPACE/NAME of the pod that is called")
      ->required();
  app->callback([&flags, pods] {
    const auto answer = check_pods(flags.client(), pods->first, pods->second);
    flags.exit_code = print(flags, answer, show_policy);
    if (answer.ok() && !bool_at(*answer, "allowed").value_or(false)) flags.exit_code = kDenied;
  });
}

// Problems that two objects have with each other.
bool is_conflict(const json::value& problem) {
  const std::string code = text_at(problem, "code");
  return code.starts_with("conflicting-") || code == "duplicate-object";
}

Result<json::value> conflicts(const AdminClient& client, const std::string& ns) {
  OSM_TRY(const json::value answer, client.get("/v1/problems"));
  json::array found;
  for (const json::value& problem : list_at(answer, "problems")) {
    const std::string object = text_at(problem, "object");
    const bool here = ns.empty() || object.find(' ' + ns + '/') != std::string::npos;
    if (here && is_conflict(problem)) found.push_back(problem);
  }
  return json::value(json::object{{"problems", std::move(found)}});
}

void add_check_conflicts(CLI::App& policy, Flags& flags) {
  auto ns = std::make_shared<std::string>();
  CLI::App* app = command(policy, flags, "check-conflicts",
                          "Objects that conflict, so that one has no effect;\n"
                          "exit code 1 if there are any",
                          "osm policy check-conflicts -n shop");
  app->add_option("-n,--namespace", *ns, "Only objects of this namespace (default: all)");
  app->callback([&flags, ns] {
    const auto answer = conflicts(flags.client(), *ns);
    flags.exit_code = print(flags, answer, show_problems);
    if (answer.ok() && !list_at(*answer, "problems").empty()) flags.exit_code = kFailed;
  });
}

struct CallOptions {
  std::string source, destination, port, method = "GET", path = "/", host, certificate;
  std::vector<std::string> headers;
};

int run_explain(const Flags& flags, const CallOptions& call) {
  std::string headers;
  for (const std::string& header : call.headers) headers += (headers.empty() ? "" : "\n") + header;
  const auto answer = flags.client().get("/v1/policy/explain", {{"source", call.source},
                                                                {"destination", call.destination},
                                                                {"port", call.port},
                                                                {"method", call.method},
                                                                {"path", call.path},
                                                                {"host", call.host},
                                                                {"certificate", call.certificate},
                                                                {"headers", headers}});
  const int printed = print(flags, answer, show_explanation);
  if (printed != kDone) return printed;
  return text_at(*answer, "verdict") == "allowed" ? kDone : kDenied;
}

void add_explain(CLI::App& policy, Flags& flags) {
  auto call = std::make_shared<CallOptions>();
  CLI::App* app = command(
      policy, flags, "explain",
      "Explain one call: every decision about it in the order in which the call meets\n"
      "them, with the object that decides, or the one that is missing.\n"
      "Exit codes: 0 allowed; 3 denied, or allowed for a part of such calls only",
      "osm policy explain shop/web shop/api --path /books --method GET\n"
      "  osm policy explain shop/web-1 api.shop --port 80   (a machine or pod; a host name)\n"
      "  osm policy explain shop/web 203.0.113.7 --port 443\n"
      "  osm policy explain gateway:198.51.100.7 shop/api --port 8080");
  app->add_option("SOURCE", call->source,
                  "NAMESPACE/NAME of an account, else of a machine or pod; account: or workload:\n"
                  "in front says which. gateway:ADDRESS is a caller without a sidecar")
      ->required();
  app->add_option("DESTINATION", call->destination,
                  "NAMESPACE/NAME of a Service, else of an account; a host name; an IP address.\n"
                  "service:, account: or host: in front says which. Of an account only its own\n"
                  "sidecars' decision is explained")
      ->required();
  app->add_option("--port", call->port,
                  "Dialled port; of an account, and from a gateway, the workloads' own\n"
                  "(default: the only one)");
  app->add_option("--method", call->method, "Method of the HTTP request")->capture_default_str();
  app->add_option("--path", call->path, "Path of the HTTP request")->capture_default_str();
  app->add_option("--host", call->host, "Host header of the HTTP request (default: DESTINATION)");
  app->add_option("--header", call->headers, "Header of the HTTP request, 'NAME: VALUE'; repeat it")
      ->allow_extra_args(false);
  app->add_option("--certificate", call->certificate,
                  "From a gateway: the DNS name or URI in its client certificate (default: none)");
  app->callback([&flags, call] { flags.exit_code = run_explain(flags, *call); });
}

}  // namespace

void add_policy(CLI::App& root, Flags& flags) {
  CLI::App* policy = root.add_subcommand("policy", "Access policy")->require_subcommand(1);
  query(*policy, flags, "list",
        "TrafficTargets as the mesh has resolved them, each once for every source",
        "osm policy list", "/v1/policies", show_policies);
  add_check_accounts(*policy, flags);
  add_check_pods(*policy, flags);
  add_check_conflicts(*policy, flags);
  add_explain(*policy, flags);
}

}  // namespace osm::cli
