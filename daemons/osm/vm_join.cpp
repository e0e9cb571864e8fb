// `osm vm token` on the controller's side, `osm vm join` on the machine: the machine makes its key,
// and a token says who it may become and whom it asks.
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "command.hpp"
#include "join_token.hpp"
#include "machine_bootstrap.hpp"
#include "osm/ids.hpp"
#include "osm/net/address.hpp"
#include "osm/net/http_client.hpp"
#include "osm/runtime/own_runtime.hpp"
#include "proxy_user.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

Result<JoinToken> read_token(const std::string& file) {
  if (file != "-") {
    OSM_TRY(std::string text, read_file(file, kMaxJoinToken));
    return decode_join_token(std::move(text), file);
  }
  std::string text;
  for (std::string line; text.size() < kMaxJoinToken && std::getline(std::cin, line);) text += line;
  return decode_join_token(std::move(text), "standard input");
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
  const JoinToken token{text_at(answer, "id"),
                        text_at(answer, "secret"),
                        options.join.empty() ? controller.str() : options.join,
                        text_at(answer, "server_name"),
                        options.controller,
                        text_at(answer, "roots")};
  return json::value{{"token", encode_join_token(token)},
                     {"machine", options.machine.str()},
                     {"join", token.join},
                     {"expires", text_at(answer, "expires")}};
}

// People pipe it to the machine: nothing else is on standard output.
std::string show_token(const json::value& made) { return text_at(made, "token") + '\n'; }

struct JoinOptions {
  std::string token_file = "-";
  ProxyOptions proxy;
};

constexpr std::chrono::milliseconds kAskAgain{200};

// One question to the server that the token names. Failure: kNotReady: ask again.
Result<json::value> ask_once(net::HttpClient& client, const JoinToken& token, const char* path,
                             const json::object& body) {
  const auto response = client.call({.method = "POST",
                                     .target = path,
                                     .headers = {{"Content-Type", "application/json"}},
                                     .body = json::serialize(body)});
  if (!response.ok())
    return Error{response.error().code,
                 "the controller at " + token.join + ": " + response.error().message};
  const auto parsed = parse_json_object(response->body, "the answer of " + token.join);
  if (!parsed.ok()) return parsed.error();
  if (response->status == 200) return json::value(*parsed);
  const json::object& error = map_at(*parsed, "error");
  ErrorCode code = response->status == 403 ? ErrorCode::kPermissionDenied : ErrorCode::kUnavailable;
  if (text_at(error, "code") == error_code_text(ErrorCode::kNotReady)) code = ErrorCode::kNotReady;
  return Error{code, "the controller at " + token.join + " refused: " + text_at(error, "message")};
}

// As the proxy's user: on a machine of the mesh interception leaves that traffic alone, and sends
// everybody else's into the mesh, where no join server is. Blocking: repeats the question up to
// `timeout` while the controller cannot say.
Result<json::value> ask(net::HttpClient& client, const JoinToken& token, const char* path,
                        const json::object& body, const JoinOptions& options,
                        std::chrono::milliseconds timeout) {
  const uid_t owner = *options.proxy.write.owner;
  const AsProxyUser user(owner, owner);
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    auto answer = ask_once(client, token, path, body);
    if (answer.ok() || answer.error().code != ErrorCode::kNotReady) return answer;
    if (std::chrono::steady_clock::now() >= end)
      return Error{ErrorCode::kUnavailable, answer.error().message};
    std::this_thread::sleep_for(kAskAgain);
  }
}

Result<json::value> join(const JoinOptions& options, std::chrono::milliseconds timeout) {
  OSM_TRY(const JoinToken token, read_token(options.token_file));
  OSM_TRY(net::Address address, net::parse_address(token.join));
  OwnRuntime runtime({.least = LogLevel::kError});
  const auto client =
      net::HttpClient::create({.address = std::move(address),
                               .tls = [&token]() -> Result<net::ClientTls> {
                                 return net::ClientTls{.trusted_pem = token.roots,
                                                       .server_name = token.server_name,
                                                       .certificate_pem = {},
                                                       .private_key = nullptr};
                               },
                               .connect_timeout = timeout,
                               .blocking = &runtime.blocking},
                              runtime.asio());
  json::object body{{"id", token.id}, {"secret", token.secret}};
  OSM_TRY(const json::value subject,
          ask(*client, token, "/v1/join/subject", body, options, timeout));
  // Before the token is used up.
  OSM_TRY(const certificate::KeyAndRequest made, prepare(subject, options.proxy.write.directory));
  body["request"] = made.request_pem;
  body["controller"] = token.controller;
  body["directory"] = options.proxy.write.directory;
  body["proxy_uid"] = *options.proxy.write.owner;
  body["xds"] = options.proxy.xds;
  body["grpc"] = options.proxy.grpc;
  OSM_TRY(const json::value answer, ask(*client, token, "/v1/join", body, options, timeout));
  return write_bootstrap(answer, made.key, options.proxy.write);
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
  auto options = std::make_shared<JoinOptions>();
  CLI::App* app = vm.add_subcommand(
      "join", "On a machine: join the mesh with a token, and write the machine's files");
  app->footer("Example:\n  osm vm join --token-file /run/osm-token --out /etc/osm/web-1");
  app->add_option("--token-file", options->token_file,
                  "File with the token, or - for standard input")
      ->capture_default_str();
  app->add_option("--out", options->proxy.write.directory, "Directory to write")->required();
  add_proxy_options(*app, options->proxy);
  add_time(*app, "--timeout", flags.timeout, "Longest wait for the controller");
  add_output(*app, flags);
  app->callback([&flags, options] {
    complete(options->proxy);
    flags.exit_code = print(flags, join(*options, flags.timeout), next_steps);
  });
}

}  // namespace osm::cli
