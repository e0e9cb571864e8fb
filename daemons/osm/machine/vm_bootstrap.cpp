// `osm vm bootstrap`: the files of a machine, written by an administrator.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>

#include "machine/commands.hpp"
#include "machine/proxy_flags.hpp"
#include "osm/ids.hpp"
#include "osm/machine/bootstrap.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

struct BootstrapCommand {
  WorkloadName machine;
  std::string controller;  // "HOST:PORT"
  ProxyFlags proxy;
};

// The answer as text. Failure: that of `answer`.
Result<std::string> text_of(const Result<json::value>& answer) {
  if (!answer.ok()) return answer.error();
  return json::serialize(*answer);
}

// Makes a key, has the controller certify it, and writes everything. Result: what was written.
Result<json::value> bootstrap_machine(const AdminClient& client, const BootstrapCommand& options) {
  const WorkloadName& name = options.machine;
  return shown(machine::bootstrap(
      {.machine = name, .controller = options.controller, .proxy = proxy_of(options.proxy)},
      {.subject =
           [&] {
             return text_of(
                 client.get("/v1/vm/subject", {{"name", name.name}, {"namespace", name.ns}}));
           },
       .bootstrap =
           [&](const std::string& body) {
             return text_of(client.post("/v1/vm/bootstrap", {}, json::parse(body)));
           }}));
}

}  // namespace

void add_vm_bootstrap(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<BootstrapCommand>();
  CLI::App* app =
      command(vm, flags, "bootstrap", "Write the files with which a machine joins the mesh",
              "osm vm bootstrap web-1 -n shop --state-dir /var/lib/osm \\\n"
              "    --controller 192.0.2.1:15128 --out /etc/osm/web-1");
  app->add_option("NAME", options->machine.name,
                  "Name of the machine: of its VirtualMachine, or as its\n"
                  "provider names it")
      ->required();
  app->add_option("-n,--namespace", options->machine.ns, "Its namespace")->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server, as the machine reaches it")
      ->required();
  app->add_option("--out", options->proxy.directory,
                  "Directory to write; the machine must have it at the same path")
      ->required();
  add_proxy_flags(*app, options->proxy);
  app->callback([&flags, options] {
    flags.exit_code = print(flags, bootstrap_machine(flags.client(), *options), next_steps);
  });
}

}  // namespace osm::cli
