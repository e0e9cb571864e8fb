#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>

#include "base/json.hpp"
#include "command.hpp"
#include "daemons/version.hpp"
#include "show.hpp"

namespace {

namespace json = boost::json;
using namespace osm::cli;

void add_vm(CLI::App& root, Flags& flags) {
  CLI::App* vm = root.add_subcommand("vm", "Machines of the mesh")->require_subcommand(1);
  add_vm_bootstrap(*vm, flags);
  add_vm_renew(*vm, flags);
}

void add_proxy(CLI::App& root, Flags& flags) {
  CLI::App* proxy = root.add_subcommand("proxy", "Connected proxies")->require_subcommand(1);
  query(*proxy, flags, "list", "Connected proxies and the state of their configuration",
        "osm proxy list", "/v1/proxies", show_proxies);

  CLI::App* get = proxy->add_subcommand("get", "Details of one proxy")->require_subcommand(1);
  auto name = std::make_shared<std::string>();
  CLI::App* dump = command(*get, flags, "config_dump",
                           "Configuration that a proxy was sent and acknowledged, as\n"
                           "envoy.admin.v3.ConfigDump (always JSON, without keys)",
                           "osm proxy get config_dump shop/web-1");
  dump->add_option("NAME", *name, "NAMESPACE/WORKLOAD, a workload's name, or the proxy's UUID")
      ->required();
  dump->callback([&flags, name] {
    flags.exit_code =
        print(flags, flags.client().get("/v1/proxies/config_dump", {{"name", *name}}), nullptr);
  });
}

void add_version(CLI::App& root, Flags& flags) {
  auto client_only = std::make_shared<bool>(false);
  CLI::App* app = command(root, flags, "version", "Versions of this command and the controller",
                          "osm version --client");
  app->add_flag("--client", *client_only, "Do not ask the controller");
  app->callback([&flags, client_only] {
    json::object versions{{"client", {{"version", osm::kVersion}, {"commit", osm::kCommit}}}};
    std::string text = std::string("client:     ") + osm::kVersionText + '\n';
    flags.exit_code = kDone;
    if (!*client_only) {
      const auto answer = flags.client().get("/v1/version");
      if (!answer.ok()) {
        std::cout << (flags.as_json() ? "" : text);
        flags.exit_code = fail(answer.error());
        return;
      }
      versions["controller"] = *answer;
      text += "controller: " + osm::text_at(*answer, "version") + " (" +
              osm::text_at(*answer, "commit") + ")\n";
    }
    std::cout << (flags.as_json() ? json::serialize(versions) + '\n' : text);
  });
}

// Names the word that is no command, and the choices.
std::string explain(const CLI::App* app, const CLI::Error& error) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::string text = std::string("osm: ") + error.what();
  const auto choices = app->get_subcommands([](const CLI::App*) { return true; });
  if (!choices.empty()) {
    const auto words = app->remaining();
    text =
        words.empty() ? "osm: a command is missing" : "osm: '" + words.front() + "' is no command";
    text += app->get_parent() ? " of '" + app->get_name() + "'; there are:" : "; there are:";
    for (const CLI::App* choice : choices) text += ' ' + choice->get_name();
  }
  return text + "\n--help shows flags and examples.\n";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"osm: inspect and manage an Open Service Mesh controller"};
  app.require_subcommand(1);
  app.failure_message(explain);
  app.footer(
      "Exit codes: 0 done or allowed, 1 failed or denied, 2 wrong usage.\n"
      "`osm COMMAND --help` shows flags and examples.");
  Flags flags;
  add_install(app, flags);
  add_uninstall(app, flags);
  add_vm(app, flags);
  add_proxy(app, flags);
  add_policy(app, flags);
  query(app, flags, "problems",
        "Objects that the controller left out of the mesh, with the reasons", "osm problems",
        "/v1/problems", show_problems);
  add_status(app, flags);
  add_certificate(app, flags);
  add_deny(app, flags);
  add_migrate(app, flags);
  add_version(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return flags.exit_code;
}
