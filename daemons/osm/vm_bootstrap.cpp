#include "vm_bootstrap.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <system_error>

#include "base/json.hpp"
#include "osm/certificate/request.hpp"
#include "osm/inject/vm_bootstrap.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

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

}  // namespace

Result<std::string> bootstrap_machine(const AdminClient& client, const BootstrapOptions& options,
                                      const WriteOptions& write) {
  OSM_TRY(const certificate::KeyAndRequest made, make_key(client, options.machine));
  OSM_TRY(const json::value answer, client.post("/v1/vm/bootstrap", {},
                                                json::object{{"name", options.machine.name},
                                                             {"namespace", options.machine.ns},
                                                             {"request", made.request_pem},
                                                             {"controller", options.controller},
                                                             {"directory", write.directory},
                                                             {"proxy_uid", options.proxy_uid},
                                                             {"xds", options.xds}}));
  return write_bootstrap(answer, made.key, write);
}

}  // namespace osm::cli
