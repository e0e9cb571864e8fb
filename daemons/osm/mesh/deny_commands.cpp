// `osm deny`: refuse a stolen identity, list what is refused, and take it back.
#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "mesh/commands.hpp"
#include "mesh/object_commands.hpp"
#include "mesh/object_place.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/values/denylist.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::steady_clock;

constexpr std::size_t kMaxReason = 256;

enum class Identity { kAccount, kProxy, kEither };

struct DenyOptions {
  std::string identity;  // "NAMESPACE/NAME" or a UUID
  Identity expected = Identity::kEither;
  std::string reason, mesh_dir;
  std::chrono::milliseconds wait{30'000};
};

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

json::value document(const ObjectKey& key, const Denylist& list) {
  json::array accounts;
  for (const ServiceIdentity& account : list.accounts)
    accounts.push_back({{"namespace", account.ns}, {"name", account.name}});
  json::array proxies;
  for (const ProxyId& proxy : list.proxies) proxies.emplace_back(proxy.str());
  json::object made = document_of(key);
  made["spec"] = {{"serviceAccounts", accounts}, {"proxyUUIDs", proxies}, {"reason", list.reason}};
  return made;
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

// Writes the object and waits until every proxy has it. Result: the exit code of `osm status`.
int change(const Flags& flags, const DenyOptions& options) {
  const bool deny = options.expected != Identity::kEither;
  auto parsed = parse_identity(options.identity, options.expected);
  if (!parsed.ok()) return fail(flags, parsed.error());
  Denylist list = *std::move(parsed);
  list.reason = to_utf8(options.reason);
  if (list.reason.size() > kMaxReason)
    return fail(flags, {ErrorCode::kInvalidArgument, "--reason: at most 256 bytes"});
  const ObjectKey key = object_of(list, flags.mesh.osm_namespace);
  const auto place = open_place(flags, options.mesh_dir, spec::kDenylistFile, options.wait);
  if (!place.ok()) return fail(flags, place.error());
  const AdminClient client = flags.client();
  const auto before = connected(client, list);
  const ChangeDocument next = [&](const json::value& present) -> Result<json::value> {
    if (deny) return document(key, list);
    if (!present.is_null()) return json::value();
    return Error{ErrorCode::kNotFound, options.identity + " is not denied by " + key.str() +
                                           " in " + place->name +
                                           "; `osm deny list` names the object that denies it"};
  };
  if (const Status written =
          edit_object(*place->writer, key, steady_clock::now() + options.wait, next);
      !written.ok())
    return fail(flags, written.error());
  bool taken_back = false;
  const auto confirm = [&]() -> Status {
    if (!deny) return {};
    OSM_TRY(const spec::StoredObject kept, place->writer->read(key));
    taken_back = kept.version.empty();
    if (!taken_back) return {};
    return Error{ErrorCode::kConflict, place->name + " no longer has " + key.str() +
                                           ": another command took it back. Repeat this one"};
  };
  const int code = run_status(flags, key, true, options.wait, deny, confirm);
  if (deny && code != kDone && !taken_back && !options.mesh_dir.empty())
    std::cerr << "osm: the denial is in " << printable(place->name)
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
                  "Of a mesh in a directory: the controller's --mesh-dir, where\n"
                  "osm-denylist.yaml is written. Other controllers have mesh\n"
                  "directories of their own: run the command at each");
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
