// `osm certificate`: what is issued, which roots there are, and to replace either.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/json.hpp"
#include "mesh/commands.hpp"
#include "mesh/next_root.hpp"
#include "mesh/object_place.hpp"
#include "osm/ids.hpp"
#include "osm/spec/directory_store.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{500};
constexpr std::chrono::seconds kDistrustBound{30};  // the rotation looks every ten seconds at least

// `osm certificate rotate` without a name: the next root of the mesh.
struct RotateRootOptions {
  bool root = false;         // the mesh is in etcd or on Kubernetes
  std::string mesh_dir;      // the controller's, of a mesh in a directory
  std::string name;          // of the next root; empty: one from the time
  std::string trust_domain;  // of the next root; empty: the one that signs now
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  // how long to follow it
};

bool finished(const std::vector<Root>& roots, const std::string& next) {
  return std::all_of(roots.begin(), roots.end(), [&](const Root& root) {
    if (root.name == next) return root.state == "signing";
    return root.role == "passive" || root.state == "inactive";
  });
}

// Declares the next root, and follows the rotation; a line for each step. Result: the exit code:
// kDone the next root signs and the one before is forgotten; kNotYet not in time; or that of the
// error. Blocking: up to the time-out.
int rotate_root(const Flags& flags, const RotateRootOptions& options) {
  const AdminClient client = flags.client();
  const std::string next =
      options.name.empty() ? fmt::format("root-{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr)))
                           : options.name;
  if (!options.trust_domain.empty() && !is_dns_name(options.trust_domain))
    return fail(flags, {ErrorCode::kInvalidArgument,
                        "--trust-domain " + options.trust_domain +
                            ": use a DNS name: lower-case letters, digits, '-' and '.'"});
  if (!is_dns_label(next))
    return fail(flags, {ErrorCode::kInvalidArgument,
                        "--name " + next + ": use lower-case letters, digits and '-'"});
  const auto place = open_place(flags, options.mesh_dir, spec::kRootsFile, flags.timeout);
  if (!place.ok()) return fail(flags, place.error());
  Result<std::vector<Root>> roots = list_roots(client);
  if (!roots.ok()) return fail(flags, roots.error());
  const Status declared = declare_root(flags, *place, {next, options.trust_domain}, *roots);
  if (!declared.ok()) return fail(flags, declared.error());
  // Standard output is for the answer.
  std::ostream& progress = flags.for_programs() ? std::cerr : std::cout;
  progress << "root " << next << " is declared in " << place->name
           << "; it signs once every proxy trusts it" << std::endl;

  const auto deadline = steady_clock::now() + options.timeout;
  std::map<std::string, std::string> told;
  do {
    roots = list_roots(client);
    if (!roots.ok() && !may_pass(roots.error())) return fail(flags, roots.error());
    for (const Root& root : roots.ok() ? *roots : std::vector<Root>()) {
      std::string text = root.state;
      if (!root.waiting_for.empty()) text += ": " + root.waiting_for;
      if (std::exchange(told[root.name], text) != text)
        progress << printable(root.name + ": " + text) << std::endl;
    }
    if (roots.ok() && told.contains(next) && finished(*roots, next))
      return flags.for_programs() ? print(flags, client.get("/v1/roots"), nullptr) : kDone;
    std::this_thread::sleep_for(kPoll);
  } while (steady_clock::now() < deadline);
  std::cerr << "osm: not done yet, and it goes on; `osm certificate status` shows how far it is. A "
               "machine's own\ncertificate is renewed by `osm vm renew` on that machine.\n";
  return kNotYet;
}

std::string show_effect(const json::value& effect) {
  std::string text;
  if (bool_at(effect, "signs").value_or(false))
    text += "It signs now: the newest other active root signs in its place.\n";
  text += fmt::format(
      "{} proxies connected here have certificates of it; {} have not got the newest trust "
      "bundle.\n",
      number_at(effect, "proxies"), number_at(effect, "bundles"));
  std::string some;
  for (const json::value& name : list_at(effect, "some"))
    if (name.is_string()) some += (some.empty() ? "" : ", ") + std::string(name.get_string());
  if (!some.empty()) text += "Among them: " + some + ".\n";
  return printable(text);
}

// Result: the exit code, as rotate_root().
int distrust(const Flags& flags, const std::string& root, bool now) {
  const AdminClient client = flags.client();
  const int shown = print(flags,
                          now ? client.post("/v1/roots/distrust", {{"root", root}})
                              : client.get("/v1/roots/distrust", {{"root", root}}),
                          show_effect);
  if (shown != kDone) return shown;
  if (!now) {
    if (!flags.for_programs())
      std::cout << "Nothing has changed. To end the trust in " << printable(root)
                << " for good, say --now. Proxies without a certificate\nof another root then stay "
                   "away until they are bootstrapped again.\n";
    return kDone;
  }
  const auto deadline = steady_clock::now() + kDistrustBound;
  Result<std::vector<Root>> roots = list_roots(client);
  for (; steady_clock::now() < deadline; roots = list_roots(client)) {
    for (const Root& each : roots.ok() ? *roots : std::vector<Root>())
      if (each.name == root && each.state == "inactive") {
        if (!flags.for_programs())
          std::cout << "root " << printable(root) << " is not trusted any more" << std::endl;
        return kDone;
      }
    std::this_thread::sleep_for(kPoll);
  }
  std::cerr
      << "osm: not done yet, and it goes on; `osm certificate status` and the controller's log "
         "say why\n";
  return kNotYet;
}

}  // namespace

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
  struct Distrusted {
    std::string root;
    bool now = false;
  };
  auto distrusted = std::make_shared<Distrusted>();
  CLI::App* const cut = command(*group, flags, "distrust",
                                "End the trust in a root whose key was stolen, at once;\n"
                                "without --now, only show the effects",
                                "osm certificate distrust mesh-2026\n"
                                "  osm certificate distrust mesh-2026 --now");
  cut->footer(cut->get_footer() +
              "\n\nExit codes: 0 done, or shown; 5 not done in time (it continues)");
  cut->add_option("ROOT", distrusted->root, "Name, as `osm certificate status` prints it")
      ->required();
  cut->add_flag("--now", distrusted->now, "End the trust now");
  cut->callback([&flags, distrusted] {
    flags.exit_code = distrust(flags, distrusted->root, distrusted->now);
  });
  struct Options {
    std::string common_name;
    RotateRootOptions root;
  };
  auto options = std::make_shared<Options>();
  CLI::App* rotate =
      command(*group, flags, "rotate",
              "Replace one certificate now, or the mesh's root: declare a new root and follow the\n"
              "rotation until the old root is no longer in use",
              "osm certificate rotate bookstore.bookstore.cluster.local\n"
              "  osm certificate rotate --root --name mesh-2027\n"
              "  osm certificate rotate --mesh-dir /etc/osm/mesh");
  rotate->footer(rotate->get_footer() +
                 "\n\nExit codes for a root: 0 done; 5 not done in time (it continues)");
  rotate->add_option("COMMON_NAME", options->common_name,
                     "Name, as `osm certificate list` prints it");
  rotate->add_flag("--root", options->root.root,
                   "Rotate the root of a mesh on Kubernetes or in etcd");
  rotate->add_option("--mesh-dir", options->root.mesh_dir,
                     "Rotate the root of a mesh in a directory: the controller's --mesh-dir,\n"
                     "to declare the new root in");
  rotate->add_option("--name", options->root.name, "Name of the new root (default: from the time)");
  rotate->add_option("--trust-domain", options->root.trust_domain,
                     "Trust domain of the new root (default: the present one)");
  add_time(*rotate, "--wait", options->root.timeout, "Time to follow a rotation");
  rotate->callback([&flags, options] {
    RotateRootOptions& wanted = options->root;
    if (!options->common_name.empty() + !wanted.mesh_dir.empty() + wanted.root != 1) {
      flags.exit_code =
          fail(flags, {ErrorCode::kInvalidArgument,
                       "name a certificate, or rotate the root: with --root on Kubernetes and for "
                       "a mesh in etcd, with --mesh-dir for a mesh in a directory"});
      return;
    }
    if (options->common_name.empty()) {
      flags.exit_code = rotate_root(flags, wanted);
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
