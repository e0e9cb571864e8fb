// `osm proxy`: connected proxies and their configuration.
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

}  // namespace

void add_proxy(CLI::App& root, Flags& flags) {
  CLI::App* proxy = root.add_subcommand("proxy", "Connected proxies")->require_subcommand(1);
  query(*proxy, flags, "list", "Connected proxies and the state of their configuration",
        "osm proxy list", "/v1/proxies", show_proxies);

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
