// `osm service` and `osm identity`: a Service and an account as the mesh has resolved them.
#include <memory>
#include <string>

#include "mesh/commands.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

// A command `get` that prints what the route knows of one name.
void add_get_by_name(CLI::App& group, Flags& flags, const char* what, const char* example,
                     const char* form, const char* path,
                     std::string (*show)(const boost::json::value&)) {
  auto name = std::make_shared<std::string>();
  CLI::App* app = command(group, flags, "get", what, example);
  app->add_option("NAME", *name, form)->required();
  app->callback([&flags, name, path, show] {
    flags.exit_code = print(flags, flags.client().get(path, {{"name", *name}}), show);
  });
}

}  // namespace

void add_service(CLI::App& root, Flags& flags) {
  CLI::App* service = root.add_subcommand("service", "Services as the mesh has resolved them")
                          ->require_subcommand(1);
  add_get_by_name(*service, flags,
                  "Endpoints of a Service, each with its provider (one of weight 0 gets no\n"
                  "traffic); the accounts behind it; and the callers that IngressBackends admit",
                  "osm service get shop/api", "NAMESPACE/NAME of the Service", "/v1/services",
                  show_service);
}

void add_identity(CLI::App& root, Flags& flags) {
  CLI::App* identity =
      root.add_subcommand("identity", "Service accounts, the identities of workloads")
          ->require_subcommand(1);
  add_get_by_name(*identity, flags,
                  "Accounts that may call an account, those that it may call, and the Services\n"
                  "that it runs",
                  "osm identity get shop/api", "NAMESPACE/ACCOUNT", "/v1/identities",
                  show_identity);
}

}  // namespace osm::cli
