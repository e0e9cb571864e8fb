// osm-cni: a chained CNI plugin that redirects the traffic of pods to their sidecars, with its
// installer and the check of pods' init containers.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <string>

#include "daemons/version.hpp"
#include "installer.hpp"
#include "plugin.hpp"
#include "pod_network.hpp"

namespace osm::cni {
namespace {

constexpr timespec kLook{1, 0};  // how often the node's configuration is looked at

int serve_runtime() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (text.starts_with("CNI_") && equals != std::string::npos)
      environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const std::string configuration{std::istreambuf_iterator<char>(std::cin), {}};
  std::error_code fault;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", fault);
  const Answer given = answer(environment, configuration, program.parent_path() / kRoot);
  std::cout << given.text << std::flush;
  return given.status;
}

int check() {
  const auto intercepted = is_intercepted();
  if (!intercepted.ok()) {
    fmt::print(stderr, "osm-cni: {}\n", intercepted.error().message);
    return 1;
  }
  if (*intercepted) return 0;
  fmt::print(stderr,
             "osm-cni: this pod's traffic is not redirected to its sidecar: the CNI plugin was not "
             "on the node when the pod was made. Delete the pod when the node's osm-cni pod is "
             "ready: kubectl get pods -A -l app=osm-cni -o wide\n");
  return 1;
}

int fail(const Error& error) {
  fmt::print(stderr, "osm-cni: {}\n", error.message);
  return 1;
}

bool ended_within(const sigset_t& signals, const timespec& time) {
  return sigtimedwait(&signals, nullptr, &time) > 0;
}

// SIGTERM and SIGINT, which are blocked from now on.
sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int keep_installed(const Node& node, const std::string& image) {
  const sigset_t signals = end_signals();
  if (const Status done = install_programs(node, image); !done.ok()) return fail(done.error());
  std::string last;
  do {
    const auto file = chain(node);
    const std::string now = file.ok() ? "in " + file->string() : file.error().message;
    if (now != last) fmt::print(stderr, "osm-cni: {}\n", now);
    last = now;
  } while (!ended_within(signals, kLook));
  return 0;
}

void add_node(CLI::App& command, Node& node) {
  command.footer("Example:\n  osm-cni " + command.get_name() +
                 " --bin-dir /opt/cni/bin --conf-dir /etc/cni/net.d");
  command.add_option("--bin-dir", node.programs, "The node's CNI programs")->required();
  command.add_option("--conf-dir", node.configurations, "The node's CNI configurations")
      ->required();
}

int run(int argc, char** argv) {
  CLI::App app{
      "Redirects the traffic of pods to their sidecars. Without a command it is a chained CNI "
      "plugin, which container runtimes call."};
  app.name("osm-cni");
  app.set_version_flag("--version", std::string("osm-cni ") + kVersion);
  app.require_subcommand(1);
  Node node;
  auto* const checks = app.add_subcommand(
      "check", "Exit 0 if the traffic of this network namespace is redirected, as in a pod");
  auto* const installs = app.add_subcommand(
      "install", "Put the plugin on this node, and keep it in the node's CNI configuration");
  auto* const ready =
      app.add_subcommand("ready", "Exit 0 if the node's container runtime calls the plugin");
  auto* const removes = app.add_subcommand(
      "remove", "Take the plugin from this node; pods that run keep their rules");
  for (CLI::App* const command : {installs, ready, removes}) add_node(*command, node);
  checks->footer("Example:\n  osm-cni check && echo redirected");
  std::string image = "/";
  installs->add_option("--image", image, "The unpacked image osm-init, if it is not this system");
  bool stays = false;
  removes->add_flag("--stay", stays, "Then wait to be ended, as a DaemonSet's container does");
  CLI11_PARSE(app, argc, argv);
  if (checks->parsed()) return check();
  if (installs->parsed()) return keep_installed(node, image);
  if (ready->parsed()) return is_chained(node) ? 0 : 1;
  const sigset_t signals = end_signals();
  if (const Status done = remove(node); !done.ok()) return fail(done.error());
  while (stays && !ended_within(signals, kLook)) {
  }
  return 0;
}

}  // namespace
}  // namespace osm::cni

int main(int argc, char** argv) {
  if (argc == 1 && std::getenv("CNI_COMMAND") != nullptr) return osm::cni::serve_runtime();
  return osm::cni::run(argc, argv);
}
