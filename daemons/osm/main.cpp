#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <iostream>

#include "base/json.hpp"
#include "command.hpp"
#include "daemons/version.hpp"
#include "show.hpp"
#include "status.hpp"
#include "table.hpp"
#include "vm_bootstrap.hpp"
#include "vm_renew.hpp"

namespace {

namespace json = boost::json;
using osm::Result;
using namespace osm::cli;

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::absolute(path, ignored).lexically_normal().string();
}

void add_vm_bootstrap(CLI::App& vm, Flags& flags) {
  struct Options {
    std::string name, ns, controller, out;
    std::string xds = "delta";
    std::optional<uid_t> owner;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app =
      command(vm, flags, "bootstrap", "Write the files with which a machine joins the mesh",
              "osm vm bootstrap web-1 -n shop --state-dir /var/lib/osm \\\n"
              "    --controller 192.0.2.1:15128 --out /etc/osm/web-1",
              false);
  app->add_option("NAME", options->name, "Name of the VirtualMachine object")->required();
  app->add_option("-n,--namespace", options->ns, "Its namespace")->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server, as the machine reaches it")
      ->required();
  app->add_option("--out", options->out,
                  "Directory to write; the machine must have it at the same path")
      ->required();
  app->add_option("--owner", options->owner,
                  "User id that Envoy runs as (default: 1500 for root, else the current user)");
  app->add_option("--xds", options->xds,
                  "Variant of xDS: delta (only changed resources), or sotw (state of the world:\n"
                  "all clusters or all listeners each time)")
      ->check(CLI::IsMember({"delta", "sotw"}))
      ->capture_default_str();
  app->callback([&flags, options] {
    WriteOptions write{absolute(options->out), options->owner};
    // Envoy's user: it owns the files, and interception leaves its traffic alone.
    if (!write.owner) write.owner = ::geteuid() == 0 ? 1500 : ::geteuid();
    const Result<std::string> written = bootstrap_machine(flags.client(),
                                                          {.machine = {options->ns, options->name},
                                                           .controller = options->controller,
                                                           .proxy_uid = *write.owner,
                                                           .xds = options->xds},
                                                          write);
    if (written.ok()) std::cout << *written;
    flags.exit_code = written.ok() ? kDone : fail(written.error());
  });
}

void add_vm_renew(CLI::App& vm, Flags& flags) {
  struct Options {
    RenewOptions renew;
    std::string directory, every;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app = command(
      vm, flags, "renew",
      "On the machine: replace its proxy certificate if it is past two thirds of its life or\n"
      "its root is being replaced; Envoy needs no restart",
      "osm vm renew --dir /etc/osm/web-1\n"
      "  osm vm renew --dir /etc/osm/web-1 --every 10m");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 current or renewed; 1 failed, the certificate is unchanged");
  app->remove_option(app->get_option("--state-dir"));
  app->add_option("--dir", options->directory, "Directory that `osm vm bootstrap --out` wrote")
      ->required();
  app->add_option("--controller", options->renew.controller,
                  "HOST:PORT of the controller's ADS server (default: from the bootstrap)");
  CLI::Option* every =
      app->add_option("--every", options->every,
                      "Keep running and check at this interval, less up to a half at random: 30s,\n"
                      "10m. After a failure earlier. SIGTERM ends it");
  app->add_flag("--force", options->renew.force, "Replace a current certificate too")
      ->excludes(every);
  app->callback([&flags, options] {
    options->renew.directory = absolute(options->directory);
    options->renew.timeout =
        std::chrono::milliseconds(static_cast<long>(flags.timeout_seconds * 1000));
    options->renew.as_json = flags.as_json();
    if (!options->every.empty()) {
      const auto every_time = parse_duration(options->every);
      if (!every_time.ok() || *every_time < std::chrono::seconds(1)) {
        std::cerr << "osm: --every " << options->every << ": write a second or more: 30s, 10m\n";
        flags.exit_code = kUsage;
        return;
      }
      options->renew.every = *every_time;
    }
    flags.exit_code = renew_machine(options->renew);
  });
}

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

void add_policy(CLI::App& root, Flags& flags) {
  struct Options {
    std::string source, destination;
  };
  auto options = std::make_shared<Options>();
  CLI::App* policy = root.add_subcommand("policy", "Access policy")->require_subcommand(1);
  CLI::App* app =
      command(*policy, flags, "check",
              "Check if an account may call another, and name the object that decides;\n"
              "exit code 1 if it may not",
              "osm policy check bookbuyer/bookbuyer bookstore/bookstore");
  app->add_option("SOURCE", options->source, "NAMESPACE/ACCOUNT that calls")->required();
  app->add_option("DESTINATION", options->destination, "NAMESPACE/ACCOUNT that is called")
      ->required();
  app->callback([&flags, options] {
    const auto answer = flags.client().get(
        "/v1/policy/check", {{"source", options->source}, {"destination", options->destination}});
    flags.exit_code = print(flags, answer, show_policy);
    if (answer.ok() && !osm::bool_at(*answer, "allowed").value_or(false)) flags.exit_code = kFailed;
  });
}

void add_status(CLI::App& root, Flags& flags) {
  struct Options {
    std::string kind, name, ns, timeout = "30s";
    bool wait = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app =
      command(root, flags, "status", "Progress of an object: the proxies that have applied it",
              "osm status traffictarget shop/web-api --wait\n"
              "  osm status vm web-1 -n shop -o json");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 applied; 1 rejected, refused or failed; 2 not applied (in time), "
              "or wrong usage");
  app->remove_option(app->get_option("--timeout"));
  app->add_option("KIND", options->kind, status_kinds())->required();
  app->add_option("NAME", options->name, "[NAMESPACE/]NAME of the object")->required();
  app->add_option("-n,--namespace", options->ns, "Its namespace, if NAME has none");
  app->add_flag("--wait", options->wait, "Wait until it is applied, or --timeout has passed");
  app->add_option("--timeout", options->timeout, "Longest wait: 500ms, 30s, 2m")
      ->capture_default_str();
  app->callback([&flags, options] {
    const auto object = parse_status_object(options->kind, options->ns, options->name);
    const auto timeout = parse_duration(options->timeout);
    if (!object.ok() || !timeout.ok()) {
      flags.exit_code = fail(object.ok() ? timeout.error() : object.error());
      return;
    }
    flags.exit_code =
        run_status(flags.client(), *object, {options->wait, *timeout, flags.as_json()});
  });
}

void add_version(CLI::App& root, Flags& flags) {
  auto client_only = std::make_shared<bool>(false);
  CLI::App* app = command(root, flags, "version", "Versions of this command and the controller",
                          "osm version --client");
  app->add_flag("--client", *client_only, "Do not ask the controller");
  app->callback([&flags, client_only] {
    json::object versions{{"client", {{"version", osm::kVersion}, {"commit", osm::kCommit}}}};
    std::string text = std::string("client:     ") + osm::kVersion + " (" + osm::kCommit + ")\n";
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
  add_vm(app, flags);
  add_proxy(app, flags);
  add_policy(app, flags);
  query(app, flags, "problems",
        "Objects that the controller left out of the mesh, with the reasons", "osm problems",
        "/v1/problems", show_problems);
  add_status(app, flags);
  add_certificate(app, flags);
  add_version(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return flags.exit_code;
}
