#include "rotate_root.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "osm/certificate/root_rotation.hpp"
#include "osm/ids.hpp"
#include "table.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr const char* kFile = "osm-root-certificates.yaml";
constexpr std::chrono::milliseconds kPoll{500};

struct Root {
  std::string name;
  std::string state;
  std::string role;
  std::string waiting_for;
  std::string trust_domain;
};

std::string member(const json::value& object, std::string_view name) {
  const json::object* fields = object.if_object();
  const json::value* value = fields ? fields->if_contains(name) : nullptr;
  return value && value->is_string() ? std::string(value->as_string()) : std::string();
}

Result<std::vector<Root>> list_roots(const AdminClient& client) {
  OSM_TRY(const json::value answer, client.get("/v1/roots"));
  std::vector<Root> roots;
  const json::object* fields = answer.if_object();
  const json::value* list = fields ? fields->if_contains("roots") : nullptr;
  if (!list || !list->is_array())
    return Error{ErrorCode::kInternal, "the controller's answer is not understood"};
  for (const json::value& root : list->as_array())
    roots.push_back({member(root, "name"), member(root, "state"), member(root, "role"),
                     member(root, "waiting_for"), member(root, "trust_domain")});
  return roots;
}

std::string document(const RotateRootOptions& options, const std::string& name,
                     const std::string& role, const std::string& trust_domain) {
  return "---\n"
         "apiVersion: config.openservicemesh.io/v1alpha2\n"
         "kind: MeshRootCertificate\n"
         "metadata: {name: " +
         name + ", namespace: " + options.osm_namespace +
         "}\n"
         "spec:\n"
         "  role: " +
         role +
         "\n"
         "  trustDomain: " +
         trust_domain +
         "\n"
         "  provider: {tresor: {ca: {secretRef: {name: " +
         name + ", namespace: " + options.osm_namespace + "}}}}\n";
}

std::string name_from_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "root-%Y%m%d-%H%M%S", &utc);
  return text;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The whole file anew: the next root active, the one that signs now no more wanted.
Status declare(const RotateRootOptions& options, const std::string& next,
               const std::vector<Root>& roots) {
  const std::filesystem::path path = std::filesystem::path(options.mesh_dir) / kFile;
  const std::string before = read_file(path);
  std::string domain = options.trust_domain;
  std::string text =
      "# Written by `osm certificate rotate`: the roots of the mesh, the newest last.\n";
  for (const Root& root : roots) {
    if (domain.empty() && root.state == "signing") domain = root.trust_domain;
    if (root.name == kOwnRoot || root.role.empty()) continue;
    if (before.find("name: " + root.name + ",") == std::string::npos) {
      if (root.role == "inactive") continue;  // its author's business
      return Error{ErrorCode::kInvalidArgument,
                   "MeshRootCertificate " + root.name + " is wished " + root.role +
                       " by another file than " + path.string() +
                       ": set its spec.role to inactive there, and add an active one"};
    }
    if (root.state != "inactive")
      text += document(options, root.name, "inactive", root.trust_domain);
  }
  text += document(options, next, "active", domain);
  const std::filesystem::path temporary = path.string() + ".tmp";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(temporary, path, failed);
  if (!file || failed)
    return Error{ErrorCode::kStorage,
                 path.string() + ": cannot be written; run this as a user that may write there"};
  return {};
}

bool finished(const std::vector<Root>& roots, const std::string& next) {
  return std::all_of(roots.begin(), roots.end(), [&](const Root& root) {
    return root.name == next ? root.state == "signing" : root.state == "inactive";
  });
}

}  // namespace

int rotate_root(const AdminClient& client, const RotateRootOptions& options) {
  const auto failed = [](const Error& error) {
    std::cerr << "osm: " << printable(error.message) << '\n';
    return 1;
  };
  const std::string next = options.name.empty() ? name_from_time() : options.name;
  if (!options.trust_domain.empty() && !is_dns_subdomain(options.trust_domain))
    return failed({ErrorCode::kInvalidArgument,
                   "--trust-domain " + options.trust_domain +
                       ": use a DNS name: lower-case letters, digits, '-' and '.'"});
  if (!is_dns_label(next))
    return failed({ErrorCode::kInvalidArgument,
                   "--name " + next + ": use lower-case letters, digits and '-'"});
  Result<std::vector<Root>> roots = list_roots(client);
  if (!roots.ok()) return failed(roots.error());
  if (Status declared = declare(options, next, *roots); !declared.ok())
    return failed(declared.error());
  std::cout << "root " << next << " is declared in " << options.mesh_dir << '/' << kFile
            << "; it signs once every proxy trusts it" << std::endl;

  const auto deadline = steady_clock::now() + options.timeout;
  std::map<std::string, std::string> told;
  do {
    roots = list_roots(client);
    if (!roots.ok() && roots.error().code != ErrorCode::kUnavailable) return failed(roots.error());
    for (const Root& root : roots.ok() ? *roots : std::vector<Root>()) {
      std::string text = root.state;
      if (!root.waiting_for.empty()) text += ": " + root.waiting_for;
      if (std::exchange(told[root.name], text) != text)
        std::cout << printable(root.name + ": " + text) << std::endl;
    }
    if (roots.ok() && told.contains(next) && finished(*roots, next)) return 0;
    std::this_thread::sleep_for(kPoll);
  } while (steady_clock::now() < deadline);
  std::cerr << "osm: not done yet, and it goes on; `osm certificate status` shows how far it is. A "
               "machine's own\ncertificate is renewed by `osm vm renew` on that machine.\n";
  return 2;
}

}  // namespace osm::cli
