// `osm proxy`: proxies, connected or expected, with their configuration and Services.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <memory>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "mesh/commands.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

// The part of a ConfigDump that has one type of resources: "envoy.admin.v3.RoutesConfigDump".
Result<json::value> part_of(Result<json::value> dump, const std::string& type) {
  if (!dump.ok() || type.empty()) return dump;
  for (const json::value& part : list_at(*dump, "configs"))
    if (text_at(part, "@type").ends_with('.' + type)) return part;
  return json::value(json::object());
}

void add_get(CLI::App& get, Flags& flags, const char* name, const char* what, const char* type) {
  auto proxy = std::make_shared<std::string>();
  CLI::App* app = command(get, flags, name, what,
                          (std::string("osm proxy get ") + name + " shop/web-1").c_str());
  app->get_option("--output")
      ->description("The configuration is JSON in both cases; json: errors too");
  app->add_option("NAME", *proxy, "NAMESPACE/WORKLOAD, a workload's name, or the proxy's UUID")
      ->required();
  app->callback([&flags, proxy, type = std::string(type)] {
    flags.exit_code = print(
        flags, part_of(flags.client().get("/v1/proxies/config_dump", {{"name", *proxy}}), type),
        nullptr);
  });
}

struct ListOptions {
  bool expected = false;
  bool participants = false;
};

// Programs get of the answer the list that was asked for, and the controllers that are missing.
int list_proxies(const Flags& flags, const ListOptions& options) {
  const auto answer = flags.client().get("/v1/proxies");
  const char* part = options.expected       ? "expected"
                     : options.participants ? "participants"
                                            : nullptr;
  if (answer.ok() && part && flags.for_programs()) {
    json::object asked{{part, list_at(*answer, part)}};
    if (const auto* unanswered = member(*answer, "unanswered")) asked["unanswered"] = *unanswered;
    return print(flags, json::value(std::move(asked)), nullptr);
  }
  return print(flags, answer,
               options.expected       ? show_expected
               : options.participants ? show_participants
                                      : show_proxies);
}

void add_proxy_list(CLI::App& proxy, Flags& flags) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* app =
      command(proxy, flags, "list",
              "Connected proxies and the state of their configuration; with a flag, other lists",
              "osm proxy list\n"
              "  osm proxy list --expected\n"
              "  osm proxy list --participants -o json");
  CLI::Option* expected = app->add_flag("--expected", options->expected,
                                        "Proxies with a certificate, connected or not");
  app->add_flag("--participants", options->participants,
                "Connected proxies whose workloads have endpoints")
      ->excludes(expected);
  app->callback([&flags, options] { flags.exit_code = list_proxies(flags, *options); });
}

Result<json::value> services_of(const AdminClient& client, const std::string& proxy) {
  const auto slash = proxy.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == proxy.size())
    return Error{ErrorCode::kInvalidArgument,
                 '\'' + proxy + "' is not NAMESPACE/UUID; `osm proxy list --expected` shows both"};
  return client.get("/v1/proxies/services",
                    {{"namespace", proxy.substr(0, slash)}, {"uuid", proxy.substr(slash + 1)}});
}

void add_services(CLI::App& proxy, Flags& flags) {
  auto name = std::make_shared<std::string>();
  CLI::App* app = command(proxy, flags, "services",
                          "Services of a proxy, connected or not, with the ports of its workload",
                          "osm proxy services shop/2dfe5765-1e4b-5f1b-8f6f-0a1b2c3d4e5f");
  app->add_option("PROXY", *name, "NAMESPACE/UUID; `osm proxy list --expected` shows both")
      ->required();
  app->callback([&flags, name] {
    flags.exit_code = print(flags, services_of(flags.client(), *name), show_services);
  });
}

}  // namespace

void add_proxy(CLI::App& root, Flags& flags) {
  CLI::App* proxy =
      root.add_subcommand("proxy",
                          "Proxies, connected or expected, with their configuration and Services")
          ->require_subcommand(1);
  add_proxy_list(*proxy, flags);
  add_services(*proxy, flags);

  CLI::App* get = proxy
                      ->add_subcommand("get",
                                       "Configuration that a proxy was sent and acknowledged, JSON "
                                       "without keys")
                      ->require_subcommand(1);
  add_get(*get, flags, "config_dump", "All of it, as envoy.admin.v3.ConfigDump", "");
  add_get(*get, flags, "clusters", "Clusters: the services that it may call", "ClustersConfigDump");
  add_get(*get, flags, "endpoints", "Endpoints of its clusters", "EndpointsConfigDump");
  add_get(*get, flags, "listeners", "Listeners with their filter chains", "ListenersConfigDump");
  add_get(*get, flags, "routes", "Route configurations", "RoutesConfigDump");
}

}  // namespace osm::cli
