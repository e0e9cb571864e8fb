// `osm vm bootstrap`: a machine's key, made here and sent nowhere, and what the controller makes
// for it: written as files, each atomically, with its mode and owner.
#include <unistd.h>

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "base/json.hpp"
#include "command.hpp"
#include "machine_files.hpp"
#include "osm/certificate/request.hpp"
#include "osm/ids.hpp"
#include "osm/inject/vm_bootstrap.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

struct BootstrapOptions {
  WorkloadName machine;
  std::string controller;  // "HOST:PORT"
  std::string xds = "delta";
  WriteOptions write;
};

Error malformed_answer() {
  return {ErrorCode::kInternal, "the controller's answer is not of this version"};
}

Result<certificate::KeyParameters> decode_key(const json::value& subject) {
  const std::string algorithm = text_at(subject, "key_algorithm");
  if (algorithm == "ECDSA") return certificate::KeyParameters{KeyType::kEcdsaP256};
  if (algorithm == "Ed25519") return certificate::KeyParameters{KeyType::kEd25519};
  const std::int64_t bits = number_at(subject, "rsa_key_bits");
  if (algorithm != "RSA" || bits == 0) return malformed_answer();
  return certificate::KeyParameters{KeyType::kRsa, static_cast<int>(bits)};
}

// A key of the kind that the mesh asks for, and a request for the machine's names.
Result<certificate::KeyAndRequest> make_key(const AdminClient& client,
                                            const WorkloadName& machine) {
  OSM_TRY(const json::value subject,
          client.get("/v1/vm/subject", {{"name", machine.name}, {"namespace", machine.ns}}));
  OSM_TRY(const certificate::KeyParameters key, decode_key(subject));
  return certificate::make_request(
      {CommonName(text_at(subject, "common_name")), SpiffeId(text_at(subject, "spiffe_id")),
       certificate::Usage::kProxy},
      key);
}

Result<File> decode_file(const json::value& value) {
  const json::value* content = member(value, "content");
  const auto proxys = bool_at(value, "proxys");
  const std::string name = text_at(value, "name");
  const auto mode = static_cast<mode_t>(number_at(value, "mode") & 0777);
  const bool plain_name =
      !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
  if (!plain_name || mode == 0 || !proxys || !content || !content->is_string())
    return malformed_answer();
  return File{name, mode, *proxys, content->get_string()};
}

std::string next_steps(const json::value& answer, const WriteOptions& options,
                       const std::string& names) {
  return fmt::format(
      "Wrote {0}: {1}\nProxy {2}, certificate {3} until {4}.\n\n"
      "On the machine, as root:\n"
      "  cat {0}/hosts >> /etc/hosts      # the mesh's names\n"
      "  {0}/intercept.sh                 # undo with --remove\n"
      "and start Envoy with the command at the top of {0}/bootstrap.yaml.\n",
      options.directory, names, text_at(answer, "uuid"), text_at(answer, "common_name"),
      text_at(answer, "not_after"));
}

Result<std::string> write_bootstrap(const json::value& answer, const certificate::PrivateKey& key,
                                    const WriteOptions& options) {
  const json::array& files = list_at(answer, "files");
  if (files.empty()) return Error{ErrorCode::kInternal, "the controller's answer holds no files"};
  std::error_code failed;
  std::filesystem::create_directories(options.directory, failed);
  if (failed) {
    return Error{ErrorCode::kStorage,
                 fmt::format("{}: {}. Choose another --out", options.directory, failed.message())};
  }
  OSM_TRY(const ProxyFilesLock lock,
          ProxyFilesLock::take(options.directory, ProxyFilesLock::Other::kAwait));
  const File key_file{std::string(inject::kProxyKeyFile), 0600, true, key.pem()};
  OSM_TRY(write_file(key_file, options));
  std::string names = key_file.name;
  for (const json::value& value : files) {
    OSM_TRY(const File file, decode_file(value));
    OSM_TRY(write_file(file, options));
    names += ", " + file.name;
  }
  return next_steps(answer, options, names);
}

// Makes a key, has the controller certify it, and writes everything. The directory itself and what
// root runs stay the caller's, so that the proxy's user cannot replace them. A file is there whole
// or not at all. Failure: the controller's; kStorage naming the file and the remedy.
// Result: what to do next, for people.
Result<std::string> bootstrap_machine(const AdminClient& client, const BootstrapOptions& options) {
  OSM_TRY(const certificate::KeyAndRequest made, make_key(client, options.machine));
  OSM_TRY(const json::value answer, client.post("/v1/vm/bootstrap", {},
                                                json::object{{"name", options.machine.name},
                                                             {"namespace", options.machine.ns},
                                                             {"request", made.request_pem},
                                                             {"controller", options.controller},
                                                             {"directory", options.write.directory},
                                                             {"proxy_uid", *options.write.owner},
                                                             {"xds", options.xds}}));
  return write_bootstrap(answer, made.key, options.write);
}

}  // namespace

void add_vm_bootstrap(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<BootstrapOptions>();
  CLI::App* app =
      command(vm, flags, "bootstrap", "Write the files with which a machine joins the mesh",
              "osm vm bootstrap web-1 -n shop --state-dir /var/lib/osm \\\n"
              "    --controller 192.0.2.1:15128 --out /etc/osm/web-1",
              false);
  app->add_option("NAME", options->machine.name, "Name of the VirtualMachine object")->required();
  app->add_option("-n,--namespace", options->machine.ns, "Its namespace")->required();
  app->add_option("--controller", options->controller,
                  "HOST:PORT of the controller's ADS server, as the machine reaches it")
      ->required();
  app->add_option("--out", options->write.directory,
                  "Directory to write; the machine must have it at the same path")
      ->required();
  app->add_option("--owner", options->write.owner,
                  "User id that Envoy runs as (default: 1500 for root, else the current user)");
  app->add_option("--xds", options->xds,
                  "Variant of xDS: delta (only changed resources), or sotw (state of the world:\n"
                  "all clusters or all listeners each time)")
      ->check(CLI::IsMember({"delta", "sotw"}))
      ->capture_default_str();
  app->callback([&flags, options] {
    WriteOptions& write = options->write;
    write.directory = absolute(write.directory);
    // Envoy's user: it owns the files, and interception leaves its traffic alone.
    if (!write.owner) write.owner = ::geteuid() == 0 ? 1500 : ::geteuid();
    const Result<std::string> written = bootstrap_machine(flags.client(), *options);
    if (written.ok()) std::cout << *written;
    flags.exit_code = written.ok() ? kDone : fail(written.error());
  });
}

}  // namespace osm::cli
