// `osm problems`: objects that are left out, or in use with a fault.
#include <algorithm>
#include <boost/json/array.hpp>
#include <memory>

#include "base/json.hpp"
#include "mesh/commands.hpp"
#include "show.hpp"

namespace osm::cli {

void add_problems(CLI::App& root, Flags& flags) {
  auto strict = std::make_shared<bool>(false);
  CLI::App* app = command(root, flags, "problems",
                          "Objects that the controller left out of the mesh, with the reasons",
                          "osm problems\n"
                          "  osm problems --strict -o json");
  add_strict(*app, *strict);
  app->callback([&flags, strict] {
    const auto answer = flags.client().get("/v1/problems");
    flags.exit_code = print(flags, answer, show_problems);
    if (flags.exit_code != kDone) return;
    const auto& problems = list_at(*answer, "problems");
    const bool faulty = std::any_of(problems.begin(), problems.end(), [&](const auto& problem) {
      const std::string severity = text_at(problem, "severity");
      return severity == "error" || (*strict && severity == "warning");
    });
    if (faulty) flags.exit_code = kFailed;
  });
}

}  // namespace osm::cli
