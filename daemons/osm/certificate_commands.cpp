// `osm certificate`: what is issued, which roots there are, and to replace either.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iostream>
#include <memory>

#include "command.hpp"
#include "rotate_root.hpp"
#include "show.hpp"
#include "status.hpp"

namespace osm::cli {

namespace json = boost::json;

void add_certificate(CLI::App& root, Flags& flags, int& exit_code) {
  CLI::App* group = root.add_subcommand("certificate", "Certificates the controller holds")
                        ->require_subcommand(1);
  command(*group, flags, "list", "Names, identities and when they end; never keys",
          "osm certificate list")
      ->callback([&] {
        exit_code = print(flags, flags.client().get("/v1/certificates"), show_certificates);
      });
  command(*group, flags, "status",
          "The mesh's roots: which signs, which are trusted, and what a\nrotation waits for",
          "osm certificate status")
      ->callback([&] { exit_code = print(flags, flags.client().get("/v1/roots"), show_roots); });
  struct Options {
    std::string common_name, timeout = "10m";
    RotateRootOptions root;
  };
  auto options = std::make_shared<Options>();
  options->root.osm_namespace = "osm-system";
  CLI::App* rotate = command(
      *group, flags, "rotate",
      "Replace one certificate now, or the mesh's root: a new root is declared, trusted by\n"
      "every proxy, signs, and the one before is forgotten once nothing of it is in use",
      "osm certificate rotate bookstore.bookstore.cluster.local\n"
      "  osm certificate rotate --mesh-dir /etc/osm/mesh");
  rotate->footer(rotate->get_footer() +
                 "\n\nExit codes of a root: 0 done; 1 failed; 2 not done in time (it goes on)");
  rotate->add_option("COMMON_NAME", options->common_name, "As `osm certificate list` prints it");
  rotate->add_option("--mesh-dir", options->root.mesh_dir,
                     "Rotate the root: the controller's --mesh-dir, where it is declared");
  rotate->add_option("--name", options->root.name, "Of the new root (default: from the time)");
  rotate->add_option("--osm-namespace", options->root.osm_namespace, "The controller's")
      ->capture_default_str();
  rotate->add_option("--trust-domain", options->root.trust_domain,
                     "Of the new root: another one moves the mesh there (default: as it is)");
  rotate->add_option("--wait", options->timeout, "How long to follow a root: 30s, 10m")
      ->capture_default_str();
  rotate->callback([&flags, &exit_code, options] {
    if (options->common_name.empty() == options->root.mesh_dir.empty()) {
      std::cerr << "osm: name a certificate, or give --mesh-dir to rotate the root\n";
      exit_code = kUsage;
      return;
    }
    if (!options->root.mesh_dir.empty()) {
      const auto timeout = parse_duration(options->timeout);
      if (timeout.ok()) options->root.timeout = *timeout;
      exit_code = timeout.ok() ? rotate_root(flags.client(), options->root) : fail(timeout.error());
      return;
    }
    exit_code = print(
        flags,
        flags.client().post("/v1/certificates/rotate", {{"common_name", options->common_name}}),
        [](const json::value& answer) {
          return show_certificates(json::object{{"certificates", json::array{answer}}});
        });
  });
}

}  // namespace osm::cli
