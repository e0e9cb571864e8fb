// `osm deny`: refuse a stolen identity, list what is refused, and take it back.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/read_file.hpp"
#include "base/utf8.hpp"
#include "base/write_file.hpp"
#include "mesh/commands.hpp"
#include "osm/spec/kinds.hpp"
#include "osm/values/denylist.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr const char* kDenyFile = "osm-denylist.yaml";      // this command's own file
constexpr std::size_t kMaxDenylistBytes = 3 * 1024 * 1024;  // of a file that the controller reads
constexpr std::size_t kMaxReason = 256;
constexpr std::chrono::milliseconds kDenyPoll{20};

enum class Identity { kAccount, kProxy, kEither };

struct DenyOptions {
  std::string identity;  // "NAMESPACE/NAME" or a UUID
  Identity expected = Identity::kEither;
  std::string reason, mesh_dir;
  std::chrono::milliseconds wait{30'000};
};

using Lists = std::map<ObjectKey, Denylist>;

// An identity as its Denylist. Failure: kInvalidArgument.
Result<Denylist> parse_identity(const std::string& text, Identity identity) {
  Denylist list;
  const auto slash = text.find('/');
  if (slash != std::string::npos && identity != Identity::kProxy) {
    ServiceIdentity account{text.substr(0, slash), text.substr(slash + 1)};
    if (is_dns_label(account.ns) && is_dns_subdomain(account.name)) {
      list.accounts.push_back(std::move(account));
      return list;
    }
  } else if (is_uuid(text) && identity != Identity::kAccount) {
    list.proxies.emplace_back(text);
    return list;
  }
  constexpr std::array kWanted{"NAMESPACE/NAME of a service account", "a proxy's UUID",
                               "NAMESPACE/NAME of a service account or a proxy's UUID"};
  return Error{ErrorCode::kInvalidArgument, "'" + text + "' is not " +
                                                kWanted[static_cast<std::size_t>(identity)] +
                                                "; `osm proxy list` prints both"};
}

ObjectKey object_of(const Denylist& one, const std::string& ns) {
  return {kinds::kDenylist, ns,
          one.accounts.empty()
              ? "proxy." + one.proxies.front().str()
              : "account." + one.accounts.front().ns + '.' + one.accounts.front().name};
}

std::string document(const ObjectKey& key, const Denylist& list) {
  json::array accounts;
  for (const ServiceIdentity& account : list.accounts)
    accounts.push_back({{"namespace", account.ns}, {"name", account.name}});
  json::array proxies;
  for (const ProxyId& proxy : list.proxies) proxies.emplace_back(proxy.str());
  return fmt::format(R"(---
apiVersion: {}
kind: Denylist
metadata: {{name: {}, namespace: {}}}
spec:
  serviceAccounts: {}
  proxyUUIDs: {}
  reason: {}
)",
                     spec::find_kind(spec::mesh_kinds(), kinds::kDenylist)->api_version(), key.name,
                     key.ns, json::serialize(accounts), json::serialize(proxies),
                     json::serialize(json::string(list.reason)));
}

// The right to change the file: one command has it at a time, until the result is destroyed. The
// lock is on the directory itself, so nothing is left behind in it.
// Failure: kStorage, kConflict. Blocking: until `deadline`.
Result<Descriptor> lock(const std::string& mesh_dir, steady_clock::time_point deadline) {
  const auto storage = [&](std::string_view remedy) {
    return Error{ErrorCode::kStorage, fmt::format("{}: {}. {}", mesh_dir,
                                                  std::generic_category().message(errno), remedy)};
  };
  Descriptor directory(::open(mesh_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return storage("Is --mesh-dir the controller's, and readable for this user?");
  while (::flock(directory.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK)
      return storage("The directory cannot be locked; run the command on the machine that has it");
    if (steady_clock::now() >= deadline)
      return Error{
          ErrorCode::kConflict,
          mesh_dir +
              ": another `osm deny` holds the lock on this directory; nothing was written. "
              "Repeat the command, or end the other one (`fuser -v` names it)"};
    std::this_thread::sleep_for(kDenyPoll);
  }
  return directory;
}

// The Denylists in this command's file. Failure: the file holds something else.
Result<Lists> read_lists(const std::string& path) {
  Lists lists;
  if (!std::filesystem::exists(path)) return lists;
  OSM_TRY(const std::string text, read_file(path, kMaxDenylistBytes));
  OSM_TRY(const auto objects, spec::read_objects(text, path));
  const spec::Kind& kind = *spec::find_kind(spec::mesh_kinds(), kinds::kDenylist);
  for (const auto& object : objects) {
    const spec::DecodedPolicy decoded =
        object->key.is(kinds::kDenylist) ? kind.decode(*object, {}) : spec::DecodedPolicy();
    if (!decoded.value || !decoded.problems.empty())
      return Error{ErrorCode::kConflict, path + " holds more than valid Denylists: move " +
                                             object->key.str() + " to another file"};
    lists.emplace(object->key, *decoded.value->get<Denylist>());
  }
  return lists;
}

Status write_lists(const std::string& mesh_dir, const Lists& lists) {
  std::string text = "# Written by `osm deny`: identities that the mesh refuses.\n";
  for (const auto& [key, list] : lists) text += document(key, list);
  return write_file({.path = mesh_dir + '/' + kDenyFile, .mode = 0644, .content = text});
}

// {UUID: workload} of the connected proxies that `list` denies. Empty if the controller is away.
std::map<std::string, std::string> connected(const AdminClient& client, const Denylist& list) {
  std::map<std::string, std::string> out;
  const auto answer = client.get("/v1/proxies");
  if (!answer.ok()) return out;
  for (const json::value& proxy : list_at(*answer, "proxies")) {
    const std::string uuid = text_at(proxy, "uuid");
    const std::string identity = text_at(proxy, "identity");
    const bool denied =
        std::any_of(list.proxies.begin(), list.proxies.end(),
                    [&](const ProxyId& id) { return id.str() == uuid; }) ||
        std::any_of(list.accounts.begin(), list.accounts.end(),
                    [&](const ServiceIdentity& account) { return account.str() == identity; });
    if (denied) out[uuid] = text_at(proxy, "name");
  }
  return out;
}

// Puts `list` into the file as `key`, or takes it out. Failure: kNotFound (to take out), the
// file's, the lock's. Blocking: until `deadline`.
Status edit(const DenyOptions& options, const ObjectKey& key, const Denylist& list,
            steady_clock::time_point deadline) {
  OSM_TRY(const Descriptor locked, lock(options.mesh_dir, deadline));
  const std::string path = options.mesh_dir + '/' + kDenyFile;
  OSM_TRY(Lists lists, read_lists(path));
  if (options.expected != Identity::kEither) {
    lists.insert_or_assign(key, list);
  } else if (lists.erase(key) == 0) {
    return Error{ErrorCode::kNotFound, options.identity + " is not denied by " + path +
                                           "; `osm deny list` names the object that denies it"};
  }
  return write_lists(options.mesh_dir, lists);
}

// Failure: the denial was taken back since it was written.
Status check_kept(const DenyOptions& options, const ObjectKey& key) {
  const std::string path = options.mesh_dir + '/' + kDenyFile;
  OSM_TRY(const Lists lists, read_lists(path));
  if (lists.contains(key)) return {};
  return Error{ErrorCode::kConflict, path + " no longer has " + key.str() +
                                         ": another command took it back. Repeat this one"};
}

// Failure: the controller reads no mesh directory. One that is away may read this one.
Status check_store(const AdminClient& client) {
  const auto version = client.get("/v1/version");
  const std::string mesh = version.ok() ? text_at(*version, "mesh") : "";
  const bool etcd = mesh.starts_with("etcd:");
  if (!etcd && mesh != "kubernetes") return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("--mesh-dir: this controller's mesh is in {}; write a Denylist with "
                           "`{} apply -f FILE`",
                           etcd ? "etcd" : "Kubernetes", etcd ? "osm" : "kubectl")};
}

// For people: the streams that were cut, or that nobody has this identity.
void tell_effect(const AdminClient& client, const Denylist& list,
                 const std::map<std::string, std::string>& before) {
  const auto after = connected(client, list);
  for (const auto& [uuid, workload] : before)
    std::cout << printable(after.contains(uuid) ? "still connected: " : "cut: ")
              << printable(workload + " (" + uuid + ")") << '\n';
  if (before.empty()) std::cout << "No proxy with this identity was connected.\n";
  for (const ServiceIdentity& account : list.accounts) {
    const auto found =
        client.get("/v1/objects",
                   {{"kind", "ServiceAccount"}, {"namespace", account.ns}, {"name", account.name}});
    if (!found.ok() && found.error().code == ErrorCode::kNotFound)
      std::cerr << "osm: warning: the mesh has no ServiceAccount " << printable(account.str())
                << "; `osm proxy list` prints the accounts of proxies\n";
  }
}

// Writes the file and waits until every proxy has it. Result: the exit code of `osm status`.
int change(const Flags& flags, const DenyOptions& options) {
  const bool deny = options.expected != Identity::kEither;
  auto parsed = parse_identity(options.identity, options.expected);
  if (!parsed.ok()) return fail(flags, parsed.error());
  Denylist list = *std::move(parsed);
  list.reason = to_utf8(options.reason);
  if (list.reason.size() > kMaxReason)
    return fail(flags, {ErrorCode::kInvalidArgument, "--reason: at most 256 bytes"});
  const ObjectKey key = object_of(list, flags.mesh.osm_namespace);
  const AdminClient client = flags.client();
  if (const Status store = check_store(client); !store.ok()) return fail(flags, store.error());
  const auto before = connected(client, list);
  if (Status written = edit(options, key, list, steady_clock::now() + options.wait); !written.ok())
    return fail(flags, written.error());
  bool taken_back = false;
  const auto confirm = [&]() -> Status {
    Status kept = deny ? check_kept(options, key) : Status();
    taken_back = !kept.ok();
    return kept;
  };
  const int code = run_status(flags, key, true, options.wait, deny, confirm);
  if (deny && code != kDone && !taken_back)
    std::cerr << "osm: the denial is in " << printable(options.mesh_dir) << '/' << kDenyFile
              << "; if no controller reads that directory, delete the file\n";
  if (deny && !taken_back && !flags.for_programs()) tell_effect(client, list, before);
  return code;
}

// Makes `app` a command that denies an identity, or with kEither admits it again.
void add_change(CLI::App* app, Flags& flags, Identity expected, const char* named) {
  auto options = std::make_shared<DenyOptions>();
  options->expected = expected;
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 in force at every connected proxy; 1 failed; 5 not in time "
              "(it continues)");
  app->add_option(named, options->identity, "As `osm proxy list` prints it")->required();
  if (expected != Identity::kEither)
    app->add_option("--reason", options->reason, "Text for people; refusals quote it");
  app->add_option("--mesh-dir", options->mesh_dir,
                  "The controller's --mesh-dir, where osm-denylist.yaml is\n"
                  "written. Other controllers have mesh directories of their own:\n"
                  "run the command at each. In etcd apply a Denylist with `osm\n"
                  "apply` instead, on Kubernetes with kubectl")
      ->required();
  add_time(*app, "--wait", options->wait,
           "Time to wait for another `osm deny` that writes, and then\n"
           "for the proxies");
  app->callback([&flags, options] { flags.exit_code = change(flags, *options); });
}

}  // namespace

void add_deny(CLI::App& root, Flags& flags) {
  CLI::App* group = root.add_subcommand("deny", "Identities that the mesh refuses: stolen keys")
                        ->require_subcommand(1);
  add_change(command(*group, flags, "account",
                     "Refuse a service account: servers do not let it in, clients do not\n"
                     "send to it, and its proxies get neither configuration nor certificates",
                     "osm deny account shop/web --mesh-dir /etc/osm/mesh --reason 'laptop lost'"),
             flags, Identity::kAccount, "NAMESPACE/NAME");
  add_change(command(*group, flags, "proxy",
                     "Refuse one proxy at the controller: no configuration, no certificates.\n"
                     "Its account stays admitted",
                     "osm deny proxy 3f0e3b9a-3a55-4c0f-9d0e-6a8a0a1f1c7d --mesh-dir "
                     "/etc/osm/mesh"),
             flags, Identity::kProxy, "UUID");
  query(*group, flags, "list", "Denied identities, with objects and reasons", "osm deny list",
        "/v1/denied", show_denied);
  add_change(
      command(*group, flags, "remove", "Admit an account or a proxy again that `osm deny` refused",
              "osm deny remove shop/web --mesh-dir /etc/osm/mesh"),
      flags, Identity::kEither, "NAMESPACE/NAME|UUID");
}

}  // namespace osm::cli
