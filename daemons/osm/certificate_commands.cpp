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

void add_certificate(CLI::App& root, Flags& flags) {
  CLI::App* group =
      root.add_subcommand("certificate", "Certificates of the controller, and the mesh's roots")
          ->require_subcommand(1);
  query(*group, flags, "list", "Names, identities and expiry; no keys", "osm certificate list",
        "/v1/certificates", show_certificates);
  query(*group, flags, "status",
        "States of the mesh's roots, and the proxies that a\n"
        "rotation waits for",
        "osm certificate status", "/v1/roots", show_roots);
  struct Options {
    std::string common_name, timeout = "10m";
    RotateRootOptions root;
  };
  auto options = std::make_shared<Options>();
  options->root.osm_namespace = "osm-system";
  CLI::App* rotate =
      command(*group, flags, "rotate",
              "Replace one certificate now, or the mesh's root: declare a new root and follow the\n"
              "rotation until the old root is no longer in use",
              "osm certificate rotate bookstore.bookstore.cluster.local\n"
              "  osm certificate rotate --mesh-dir /etc/osm/mesh");
  rotate->footer(rotate->get_footer() +
                 "\n\nExit codes for a root: 0 done; 1 failed; 2 not done in time (it continues)");
  rotate->add_option("COMMON_NAME", options->common_name,
                     "Name, as `osm certificate list` prints it");
  rotate->add_option("--mesh-dir", options->root.mesh_dir,
                     "Rotate the root: the controller's --mesh-dir, to declare the new root in");
  rotate->add_option("--name", options->root.name, "Name of the new root (default: from the time)");
  rotate->add_option("--osm-namespace", options->root.osm_namespace, "The controller's")
      ->capture_default_str();
  rotate->add_option("--trust-domain", options->root.trust_domain,
                     "Trust domain of the new root (default: the present one)");
  rotate->add_option("--wait", options->timeout, "Time to follow a rotation: 30s, 10m")
      ->capture_default_str();
  rotate->callback([&flags, options] {
    if (options->common_name.empty() == options->root.mesh_dir.empty()) {
      std::cerr << "osm: name a certificate, or give --mesh-dir to rotate the root\n";
      flags.exit_code = kUsage;
      return;
    }
    if (!options->root.mesh_dir.empty()) {
      const auto timeout = parse_duration(options->timeout);
      if (timeout.ok()) options->root.timeout = *timeout;
      flags.exit_code =
          timeout.ok() ? rotate_root(flags.client(), options->root) : fail(timeout.error());
      return;
    }
    flags.exit_code = print(
        flags,
        flags.client().post("/v1/certificates/rotate", {{"common_name", options->common_name}}),
        [](const json::value& answer) {
          return show_certificates(json::object{{"certificates", json::array{answer}}});
        });
  });
}

}  // namespace osm::cli
