#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "admin_client.hpp"
#include "daemons/version.hpp"
#include "show.hpp"
#include "vm_bootstrap.hpp"

namespace {

namespace json = boost::json;
using osm::Result;
using osm::cli::AdminClient;

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2 };

// Read here and not by CLI11: every command has the flag, and one that is not used would let the
// environment win over the one that is.
std::string default_state_dir() {
  const char* named = std::getenv("OSM_STATE_DIR");
  return named && *named ? named : "/var/lib/osm";
}

struct Flags {
  std::string state_dir = default_state_dir();
  std::string output = "table";
  double timeout_seconds = 10;

  bool as_json() const { return output == "json"; }
  AdminClient client() const {
    return {state_dir, std::chrono::milliseconds(static_cast<long>(timeout_seconds * 1000))};
  }
};

int fail(const osm::Error& error) {
  std::cerr << "osm: " << error.message << '\n';
  return kFailed;
}

// Prints an answer: as it is for programs, by `show` for people.
int print(const Flags& flags, const Result<json::value>& answer,
          std::string (*show)(const json::value&)) {
  if (!answer.ok()) return fail(answer.error());
  std::cout << (flags.as_json() || !show ? json::serialize(*answer) + '\n' : show(*answer));
  return std::cout.flush() ? kDone : kFailed;
}

// Every command takes the flags that find the controller; those that print also take -o.
CLI::App* command(CLI::App& parent, Flags& flags, const char* name, const char* what,
                  const char* example, bool prints = true) {
  CLI::App* app = parent.add_subcommand(name, what);
  app->footer(std::string("Example:\n  ") + example);
  app->add_option("--state-dir", flags.state_dir,
                  "The controller's --state-dir (default: $OSM_STATE_DIR, else /var/lib/osm)");
  app->add_option("--timeout", flags.timeout_seconds, "Seconds to wait for the controller")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  if (prints) {
    app->add_option("-o,--output", flags.output, "table, or json for programs")
        ->check(CLI::IsMember({"table", "json"}))
        ->capture_default_str();
  }
  return app;
}

void add_vm(CLI::App& root, Flags& flags, int& exit_code) {
  struct Options {
    std::string name, ns, controller, out;
    std::optional<uid_t> owner;
  };
  auto options = std::make_shared<Options>();
  CLI::App* vm = root.add_subcommand("vm", "Machines of the mesh")->require_subcommand(1);
  CLI::App* app =
      command(*vm, flags, "bootstrap", "Write all that a machine needs to join the mesh",
              "osm vm bootstrap web-1 -n shop --state-dir /var/lib/osm \\\n"
              "    --controller 192.0.2.1:15128 --out /etc/osm/web-1",
              false);
  app->add_option("NAME", options->name, "Of the VirtualMachine object")->required();
  app->add_option("-n,--namespace", options->ns, "Its namespace")->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server, as the machine reaches it")
      ->required();
  app->add_option("--out", options->out,
                  "Directory to write; the machine must have it at the same path")
      ->required();
  app->add_option("--owner", options->owner,
                  "User id that Envoy runs as (default: 1500 for root, else the current user)");
  app->callback([&flags, &exit_code, options] {
    std::error_code ignored;
    osm::cli::WriteOptions write{
        std::filesystem::absolute(options->out, ignored).lexically_normal().string(),
        options->owner};
    // Envoy's user: it owns the files, and interception leaves its traffic alone.
    if (!write.owner) write.owner = ::geteuid() == 0 ? 1500 : ::geteuid();
    const auto answer = flags.client().post("/v1/vm/bootstrap", {},
                                            json::object{{"name", options->name},
                                                         {"namespace", options->ns},
                                                         {"controller", options->controller},
                                                         {"directory", write.directory},
                                                         {"proxy_uid", *write.owner}});
    if (!answer.ok()) {
      exit_code = fail(answer.error());
      return;
    }
    const Result<std::string> written = osm::cli::write_bootstrap(*answer, write);
    if (written.ok()) std::cout << *written;
    exit_code = written.ok() ? kDone : fail(written.error());
  });
}

void add_proxy(CLI::App& root, Flags& flags, int& exit_code) {
  CLI::App* proxy = root.add_subcommand("proxy", "Connected proxies")->require_subcommand(1);
  command(*proxy, flags, "list", "Which proxies are connected and how current they are",
          "osm proxy list")
      ->callback([&] {
        exit_code = print(flags, flags.client().get("/v1/proxies"), osm::cli::show_proxies);
      });

  CLI::App* get = proxy->add_subcommand("get", "One proxy in depth")->require_subcommand(1);
  auto name = std::make_shared<std::string>();
  CLI::App* dump = command(*get, flags, "config_dump",
                           "What the controller sent a proxy and what it acknowledged, as\n"
                           "envoy.admin.v3.ConfigDump (always JSON; keys never appear)",
                           "osm proxy get config_dump shop/web-1");
  dump->add_option("NAME", *name, "NAMESPACE/WORKLOAD, a workload's name, or the proxy's UUID")
      ->required();
  dump->callback([&flags, &exit_code, name] {
    exit_code =
        print(flags, flags.client().get("/v1/proxies/config_dump", {{"name", *name}}), nullptr);
  });
}

void add_policy(CLI::App& root, Flags& flags, int& exit_code) {
  struct Options {
    std::string source, destination;
  };
  auto options = std::make_shared<Options>();
  CLI::App* policy = root.add_subcommand("policy", "Access policy")->require_subcommand(1);
  CLI::App* app = command(*policy, flags, "check",
                          "Whether one account may call another, and which object decides;\n"
                          "exit code 1 when it may not",
                          "osm policy check bookbuyer/bookbuyer bookstore/bookstore");
  app->add_option("SOURCE", options->source, "NAMESPACE/ACCOUNT that calls")->required();
  app->add_option("DESTINATION", options->destination, "NAMESPACE/ACCOUNT that is called")
      ->required();
  app->callback([&flags, &exit_code, options] {
    const auto answer = flags.client().get(
        "/v1/policy/check", {{"source", options->source}, {"destination", options->destination}});
    exit_code = print(flags, answer, osm::cli::show_policy);
    if (exit_code != kDone) return;
    const json::value* allowed =
        answer->is_object() ? answer->as_object().if_contains("allowed") : nullptr;
    if (!allowed || !allowed->is_bool() || !allowed->as_bool()) exit_code = kFailed;
  });
}

void add_certificate(CLI::App& root, Flags& flags, int& exit_code) {
  CLI::App* group = root.add_subcommand("certificate", "Certificates the controller holds")
                        ->require_subcommand(1);
  command(*group, flags, "list", "Names, identities and when they end; never keys",
          "osm certificate list")
      ->callback([&] {
        exit_code =
            print(flags, flags.client().get("/v1/certificates"), osm::cli::show_certificates);
      });
  auto name = std::make_shared<std::string>();
  CLI::App* rotate =
      command(*group, flags, "rotate", "Replace a certificate now; proxies that use it are told",
              "osm certificate rotate bookstore.bookstore.cluster.local");
  rotate->add_option("COMMON_NAME", *name, "As `osm certificate list` prints it")->required();
  rotate->callback([&flags, &exit_code, name] {
    exit_code = print(
        flags, flags.client().post("/v1/certificates/rotate", {{"common_name", *name}}),
        [](const json::value& answer) {
          return osm::cli::show_certificates(json::object{{"certificates", json::array{answer}}});
        });
  });
}

void add_version(CLI::App& root, Flags& flags, int& exit_code) {
  auto client_only = std::make_shared<bool>(false);
  CLI::App* app = command(root, flags, "version", "Versions of this command and the controller",
                          "osm version --client");
  app->add_flag("--client", *client_only, "Do not ask the controller");
  app->callback([&flags, &exit_code, client_only] {
    json::object versions{{"client", {{"version", osm::kVersion}, {"commit", osm::kCommit}}}};
    std::string text = std::string("client:     ") + osm::kVersion + " (" + osm::kCommit + ")\n";
    exit_code = kDone;
    if (!*client_only) {
      const auto answer = flags.client().get("/v1/version");
      if (!answer.ok()) {
        std::cout << (flags.as_json() ? "" : text);
        exit_code = fail(answer.error());
        return;
      }
      versions["controller"] = *answer;
      const auto member = [&](const char* name) {
        const auto* value = answer->is_object() ? answer->as_object().if_contains(name) : nullptr;
        return value && value->is_string() ? std::string(value->as_string()) : std::string("-");
      };
      text += "controller: " + member("version") + " (" + member("commit") + ")\n";
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
  CLI::App app{"osm: look into and manage an Open Service Mesh controller"};
  app.require_subcommand(1);
  app.failure_message(explain);
  app.footer(
      "Exit codes: 0 done or allowed, 1 failed or denied, 2 wrong usage.\n"
      "`osm COMMAND --help` shows flags and examples.");
  Flags flags;
  int exit_code = kDone;
  add_vm(app, flags, exit_code);
  add_proxy(app, flags, exit_code);
  add_policy(app, flags, exit_code);
  command(app, flags, "problems", "What the controller left out of the mesh, where and why",
          "osm problems")
      ->callback([&] {
        exit_code = print(flags, flags.client().get("/v1/problems"), osm::cli::show_problems);
      });
  add_certificate(app, flags, exit_code);
  add_version(app, flags, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }
  return exit_code;
}
