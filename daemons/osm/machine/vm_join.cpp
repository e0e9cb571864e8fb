// `osm vm token` on the controller's side, `osm vm join` on the machine: the machine makes its key,
// and a token says who it may become and whom it asks.
#include <boost/json/object.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "machine/commands.hpp"
#include "machine/proxy_flags.hpp"
#include "osm/ids.hpp"
#include "osm/machine/join.hpp"
#include "osm/net/address.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

Result<machine::JoinToken> read_token(const std::string& file) {
  if (file != "-") {
    OSM_TRY(std::string text, read_file(file, machine::kMaxJoinToken));
    return machine::decode_join_token(std::move(text), file);
  }
  std::string text;
  for (std::string line; text.size() < machine::kMaxJoinToken && std::getline(std::cin, line);)
    text += line;
  return machine::decode_join_token(std::move(text), "standard input");
}

struct TokenOptions {
  WorkloadName machine;
  std::string controller;
  std::string join;
  std::chrono::milliseconds life = std::chrono::minutes(15);
};

Result<json::value> make_token(const AdminClient& client, const TokenOptions& options) {
  OSM_TRY(net::Address controller, net::parse_address(options.controller));
  OSM_TRY(
      const json::value answer,
      client.post("/v1/vm/tokens", {},
                  json::object{
                      {"name", options.machine.name},
                      {"namespace", options.machine.ns},
                      {"seconds", std::chrono::ceil<std::chrono::seconds>(options.life).count()}}));
  controller.port = static_cast<std::uint16_t>(number_at(answer, "join_port"));
  const machine::JoinToken token{text_at(answer, "id"),
                                 text_at(answer, "secret"),
                                 options.join.empty() ? controller.str() : options.join,
                                 text_at(answer, "server_name"),
                                 options.controller,
                                 text_at(answer, "roots")};
  return json::value{{"token", machine::encode_join_token(token)},
                     {"machine", options.machine.str()},
                     {"join", token.join},
                     {"expires", text_at(answer, "expires")}};
}

// People pipe it to the machine: nothing else is on standard output.
std::string show_token(const json::value& made) { return text_at(made, "token") + '\n'; }

struct JoinCommand {
  std::string token_file = "-";
  ProxyFlags proxy;
};

Result<json::value> join(const JoinCommand& options, std::chrono::milliseconds timeout) {
  OSM_TRY(machine::JoinToken token, read_token(options.token_file));
  OwnRuntime runtime({.least = LogLevel::kError});
  return shown(machine::join({.token = std::move(token),
                              .proxy = proxy_of(options.proxy),
                              .timeout = timeout,
                              .as_proxy_user = true},
                             {runtime.asio(), runtime.blocking}));
}

}  // namespace

void add_vm_token(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<TokenOptions>();
  CLI::App* app =
      command(vm, flags, "token", "Make a token with which one machine joins the mesh, once",
              "osm vm token web-1 -n shop --controller 192.0.2.1:15128 | \\\n"
              "    ssh web-1 osm vm join --out /etc/osm/web-1");
  app->add_option("NAME", options->machine.name, "Name of the VirtualMachine object")->required();
  app->add_option("-n,--namespace", options->machine.ns, "Its namespace")->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server, as the machine reaches it")
      ->required();
  app->add_option(
      "--join", options->join,
      "HOST:PORT of the controller's --join-address, as the machine reaches it (default:\n"
      "the host of --controller)");
  add_time(*app, "--life", options->life, "Time in which the machine must join",
           {std::chrono::minutes(1), std::chrono::hours(24)});
  app->callback([&flags, options] {
    flags.exit_code = print(flags, make_token(flags.client(), *options), show_token);
  });
}

void add_vm_join(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<JoinCommand>();
  CLI::App* app = vm.add_subcommand(
      "join", "On a machine: join the mesh with a token, and write the machine's files");
  app->footer("Example:\n  osm vm join --token-file /run/osm-token --out /etc/osm/web-1");
  app->add_option("--token-file", options->token_file,
                  "File with the token, or - for standard input")
      ->capture_default_str();
  app->add_option("--out", options->proxy.directory, "Directory to write")->required();
  add_proxy_flags(*app, options->proxy);
  add_time(*app, "--timeout", flags.timeout, "Longest wait for the controller");
  add_output(*app, flags);
  app->callback([&flags, options] {
    flags.exit_code = print(flags, join(*options, flags.timeout), next_steps);
  });
}

}  // namespace osm::cli
