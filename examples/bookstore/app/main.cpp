// bookstore: the workloads of the example mesh in one program, chosen by its first argument.
#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>

#include "buyer.hpp"
#include "load.hpp"
#include "program.hpp"
#include "server.hpp"

namespace {

using namespace bookstore;

// Runs a role until SIGTERM or SIGINT.
int run(const std::function<void(asio::io_context&)>& start) {
  asio::io_context context(1);
  asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code&, int) { context.stop(); });
  start(context);
  context.run();
  return 0;
}

int run_role(asio::awaitable<void> role) {
  return run([&](asio::io_context& context) {
    asio::co_spawn(context, std::move(role), [](const std::exception_ptr& failed) {
      if (failed) std::rethrow_exception(failed);
    });
  });
}

int main_or_throw(int argc, char** argv) {
  CLI::App app{"The workloads of the bookstore mesh"};
  app.require_subcommand(1);

  std::string listen = "0.0.0.0:14001";
  std::string target;
  std::string restock;
  HttpServerOptions server;
  auto* serve = app.add_subcommand("serve", "an HTTP shop or warehouse");
  serve->add_option("--listen", listen, "HOST:PORT");
  serve->add_option("--service", server.service, "its name in answers")->required();
  serve->add_option("--version", server.version, "its version in answers");
  serve->add_option("--restock", restock, "HOST:PORT of the warehouse");

  auto* ledger = app.add_subcommand("ledger", "a TCP service that numbers lines");
  ledger->add_option("--listen", listen, "HOST:PORT");

  BuyerOptions buyer;
  int interval_ms = 200;
  auto* buy_command = app.add_subcommand("buy", "an HTTP client; one line of JSON per request");
  buy_command->add_option("--target", target, "HOST:PORT")->required();
  buy_command->add_option("--path", buyer.path)->default_val("/buy-a-book/new");
  buy_command->add_option("--interval-ms", interval_ms);
  auto* write_command = app.add_subcommand("write", "a client of the ledger");
  write_command->add_option("--target", target, "HOST:PORT")->required();
  write_command->add_option("--interval-ms", interval_ms);

  LoadOptions load;
  std::string ledger_target;
  auto* load_command = app.add_subcommand("load", "steady load without retries");
  load_command->add_option("--http", target, "HOST:PORT")->required();
  load_command->add_option("--path", load.path)->default_val("/books-bought");
  load_command->add_option("--rate", load.rate, "requests per second");
  load_command->add_option("--connections", load.connections);
  load_command->add_option("--ledger", ledger_target, "HOST:PORT");
  load_command->add_option("--streams", load.streams);
  load_command->add_option("--report", load.report, "file to write")->required();

  CLI11_PARSE(app, argc, argv);
  if (!target.empty()) buyer.target = parse_host_port(target);
  buyer.interval = std::chrono::milliseconds(interval_ms);
  if (serve->parsed()) {
    server.listen = parse_host_port(listen);
    if (!restock.empty()) server.restock = parse_host_port(restock);
    return run_role(serve_http(server));
  }
  if (ledger->parsed()) return run_role(serve_ledger(parse_host_port(listen)));
  if (buy_command->parsed()) return run_role(buy(buyer));
  if (write_command->parsed()) return run_role(write_ledger(buyer));

  load.http = buyer.target;
  if (ledger_target.empty()) {
    load.streams = 0;
  } else {
    load.ledger = parse_host_port(ledger_target);
  }
  const auto role = std::make_shared<Load>(load);
  const int result = run([&](asio::io_context& context) { role->start(context); });
  role->write_report();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return main_or_throw(argc, argv);
  } catch (const std::exception& failed) {
    std::cerr << "bookstore: " << failed.what() << '\n';
    return 1;
  }
}
