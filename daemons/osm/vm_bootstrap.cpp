// `osm vm bootstrap`: the files of a machine, written by an administrator.
#include <boost/json/object.hpp>
#include <memory>
#include <utility>

#include "command.hpp"
#include "machine_bootstrap.hpp"
#include "osm/ids.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

struct BootstrapOptions {
  WorkloadName machine;
  std::string controller;  // "HOST:PORT"
  ProxyOptions proxy;
};

// Makes a key, has the controller certify it, and writes everything. Result: what was written.
Result<json::value> bootstrap_machine(const AdminClient& client, const BootstrapOptions& options) {
  const WorkloadName& machine = options.machine;
  OSM_TRY(const json::value subject,
          client.get("/v1/vm/subject", {{"name", machine.name}, {"namespace", machine.ns}}));
  OSM_TRY(const certificate::KeyAndRequest made, prepare(subject, options.proxy.write.directory));
  OSM_TRY(const json::value answer,
          client.post("/v1/vm/bootstrap", {},
                      json::object{{"name", machine.name},
                                   {"namespace", machine.ns},
                                   {"request", made.request_pem},
                                   {"controller", options.controller},
                                   {"directory", options.proxy.write.directory},
                                   {"proxy_uid", *options.proxy.write.owner},
                                   {"xds", options.proxy.xds},
                                   {"grpc", options.proxy.grpc}}));
  return write_bootstrap(answer, made.key, options.proxy.write);
}

}  // namespace

void add_vm_bootstrap(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<BootstrapOptions>();
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
  app->add_option("--out", options->proxy.write.directory,
                  "Directory to write; the machine must have it at the same path")
      ->required();
  add_proxy_options(*app, options->proxy);
  app->callback([&flags, options] {
    complete(options->proxy);
    flags.exit_code = print(flags, bootstrap_machine(flags.client(), *options), next_steps);
  });
}

}  // namespace osm::cli
