#include <grpc/support/log.h>

#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "command.hpp"
#include "daemons/version.hpp"

namespace {

namespace json = boost::json;
using namespace osm::cli;

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
        std::cout << (flags.for_programs() ? "" : text);
        flags.exit_code = fail(flags, answer.error());
        return;
      }
      versions["controller"] = *answer;
      text += "controller: " + osm::text_at(*answer, "version") + " (" +
              osm::text_at(*answer, "commit") + ")\n";
    }
    std::cout << (flags.for_programs() ? flags.written(versions) : text);
  });
}

// Names the word that is no command, and the choices.
std::string explanation(const CLI::App& root, const CLI::Error& error) {
  const CLI::App* app = &root;
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  std::string text = error.what();
  const auto choices = app->get_subcommands([](const CLI::App*) { return true; });
  if (!choices.empty()) {
    const auto words = app->remaining();
    text = words.empty() ? "a command is missing" : "'" + words.front() + "' is no command";
    text += app->get_parent() ? " of '" + app->get_name() + "'; there are:" : "; there are:";
    for (const CLI::App* choice : choices) text += ' ' + choice->get_name();
  }
  return text;
}

std::string failure_message(const CLI::App* app, const CLI::Error& error) {
  return "osm: " + explanation(*app, error) + "\n--help shows flags and examples.\n";
}

// The output for programs that a command line asks for; empty: none. The words of one that is wrong
// may not have been read up to -o.
std::string output_for_programs(const std::vector<std::string_view>& words) {
  for (const std::string format : {"json", "yaml"}) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "--output=" + format || words[i] == "-o" + format) return format;
      const bool is_output = words[i] == "-o" || words[i] == "--output";
      if (is_output && i + 1 < words.size() && words[i + 1] == format) return format;
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  gpr_set_log_function([](gpr_log_func_args*) {});  // what gRPC says, the commands' errors say too
  CLI::App app{"osm: inspect and manage an Open Service Mesh controller"};
  app.require_subcommand(1);
  app.set_version_flag("--version", osm::kVersionText,
                       "Print the version of this command and exit");
  app.failure_message(failure_message);
  app.footer(
      "Exit codes: 0 done, or allowed; 1 failed, or a fault was found; 2 wrong usage;\n"
      "3 denied by a policy, or the caller was refused; 4 could not ask, or no answer;\n"
      "5 not yet done, it continues.\n"
      "`osm COMMAND --help` shows flags and examples.");
  Flags flags;
  add_cluster_commands(app, flags);
  add_machine_commands(app, flags);
  add_mesh_commands(app, flags);
  add_completion(app, flags);
  add_version(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    flags.output = output_for_programs({argv, argv + argc});
    if (flags.output.empty()) return app.exit(error), kUsage;
    return fail(flags, {osm::ErrorCode::kInvalidArgument, explanation(app, error)});
  }
  return flags.exit_code;
}
