#include "machine/bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "machine/proxy_files.hpp"
#include "osm/ids.hpp"
#include "osm/inject/interception.hpp"
#include "osm/inject/vm_bootstrap.hpp"

namespace osm::inline v1::machine {
namespace {

namespace json = boost::json;

Error malformed_answer() {
  return {ErrorCode::kInternal, "the controller's answer is not of this version"};
}

Result<certificate::KeyParameters> decode_key(const json::object& subject) {
  const std::string algorithm = text_at(subject, "key_algorithm");
  if (algorithm == "ECDSA") return certificate::KeyParameters{KeyType::kEcdsaP256};
  if (algorithm == "Ed25519") return certificate::KeyParameters{KeyType::kEd25519};
  const std::int64_t bits = number_at(subject, "rsa_key_bits");
  if (algorithm != "RSA" || bits == 0) return malformed_answer();
  return certificate::KeyParameters{KeyType::kRsa, static_cast<int>(bits)};
}

// "shop/web-1", as the first line of the machine's bootstrap says; empty if it does not.
// libosm/inject/vm_bootstrap.cpp writes that line.
std::string machine_of(const std::string& directory) {
  static const std::regex kLine("# Envoy's bootstrap for ([a-z0-9./-]+), written by");
  const auto text = read_file(directory + "/bootstrap.yaml", 1024 * 1024);
  std::smatch found;
  return text.ok() && std::regex_search(*text, found, kLine, std::regex_constants::match_continuous)
             ? found[1].str()
             : "";
}

// Makes the directory and those above it. The proxy's user enters them, whatever the umask is.
std::error_code make_directory(const std::filesystem::path& directory) {
  std::error_code failed;
  std::vector<std::filesystem::path> missing;
  for (std::filesystem::path at = directory; !at.empty() && !std::filesystem::exists(at, failed);
       at = at.parent_path())
    missing.push_back(at);
  std::filesystem::create_directories(directory, failed);
  for (const std::filesystem::path& made : missing)
    if (!failed) std::filesystem::permissions(made, std::filesystem::perms(0755), failed);
  return failed;
}

// Failure: kStorage, if the directory cannot be made or written to; kConflict, if it has another
// machine's files, or other files of their names.
Status prepare_directory(const std::string& directory, const WorkloadName& machine) {
  std::error_code failed = make_directory(directory);
  if (!failed && ::access(directory.c_str(), W_OK | X_OK) != 0)
    failed = {errno, std::generic_category()};
  if (failed)
    return Error{ErrorCode::kStorage,
                 fmt::format("{}: {}. Choose another --out", directory, failed.message())};
  const std::string other = machine_of(directory);
  if (!other.empty() && !machine.name.empty() && other != machine.str())
    return Error{ErrorCode::kConflict,
                 fmt::format("{}: holds the files of {}, not of {}. Choose another --out, or end "
                             "the former with `osm vm leave --dir {}`",
                             directory, other, machine.str(), directory)};
  const auto there = [&](std::string_view name) {
    return ::access(fmt::format("{}/{}", directory, name).c_str(), F_OK) == 0;
  };
  if (!other.empty() || there(inject::kProxyKeyFile)) return {};
  for (const std::string_view name : kMachineFiles)
    if (there(name))
      return Error{ErrorCode::kConflict,
                   fmt::format("{}/{}: is there, and is not of a machine of the mesh. Choose an "
                               "empty directory for --out",
                               directory, name)};
  return {};
}

// Failure: kStorage, if this process cannot give files in the directory to the owner.
Status try_owner(const ProxyOptions& options) {
  const std::uint32_t owner = owner_of(options);
  if (owner == 0) return {};  // the controller refuses root, and says why
  OSM_TRY(const ProxyFilesLock lock,
          ProxyFilesLock::take(options.directory, ProxyFilesLock::Other::kAwait));
  return lock.try_owner(owner);
}

}  // namespace

std::uint32_t owner_of(const ProxyOptions& options) {
  return options.owner.value_or(::geteuid() == 0 ? inject::kProxyUid : ::geteuid());
}

Result<certificate::KeyAndRequest> prepare(const json::object& subject,
                                           const ProxyOptions& options) {
  OSM_TRY(const certificate::KeyParameters key, decode_key(subject));
  OSM_TRY(prepare_directory(options.directory,
                            {text_at(subject, "namespace"), text_at(subject, "name")}));
  OSM_TRY(try_owner(options));
  return certificate::make_request(
      {CommonName(text_at(subject, "common_name")), SpiffeId(text_at(subject, "spiffe_id")),
       certificate::Usage::kProxy},
      key);
}

namespace {

// The files of the controller's answer. Failure: kInternal.
Result<std::vector<inject::BootstrapFile>> decode_files(const json::object& answer) {
  const json::array& list = list_at(answer, "files");
  if (list.empty()) return Error{ErrorCode::kInternal, "the controller's answer holds no files"};
  std::vector<inject::BootstrapFile> files;
  for (const json::value& value : list) {
    const json::value* content = member(value, "content");
    const auto proxys = bool_at(value, "proxys");
    std::string name = text_at(value, "name");
    const auto mode = static_cast<unsigned>(number_at(value, "mode") & 0777);
    if (!is_plain_name(name) || mode == 0 || !proxys || !content || !content->is_string())
      return malformed_answer();
    files.push_back({std::move(name), mode, *proxys, std::string(content->get_string())});
  }
  return files;
}

// The members of an answer that is an object; none of another.
json::object members_of(const std::string& answer) {
  return parse_json_object(answer, "the answer").value_or({});
}

}  // namespace

void add_proxy(json::object& body, const ProxyOptions& options) {
  body["directory"] = options.directory;
  body["proxy_uid"] = owner_of(options);
  body["xds"] = xds_variant_text(options.xds);
  body["grpc"] = options.grpc;
}

Result<Bootstrapped> write_bootstrap(const json::object& answer, const certificate::PrivateKey& key,
                                     const ProxyOptions& options) {
  OSM_TRY(const std::vector<inject::BootstrapFile> files, decode_files(answer));
  OSM_TRY(write_files({options.directory, owner_of(options)}, key, files));
  Bootstrapped written{.directory = options.directory,
                       .files = {std::string(inject::kProxyKeyFile)},
                       .uuid = text_at(answer, "uuid"),
                       .common_name = text_at(answer, "common_name"),
                       .served_until = text_at(answer, "served_until"),
                       .not_after = text_at(answer, "not_after")};
  for (const inject::BootstrapFile& file : files) written.files.push_back(file.name);
  return written;
}

Result<Bootstrapped> bootstrap(const BootstrapOptions& options, const AdminCalls& calls) {
  OSM_TRY(const std::string subject, calls.subject());
  OSM_TRY(const certificate::KeyAndRequest made, prepare(members_of(subject), options.proxy));
  json::object body{{"name", options.machine.name},
                    {"namespace", options.machine.ns},
                    {"request", made.request_pem},
                    {"controller", options.controller}};
  add_proxy(body, options.proxy);
  OSM_TRY(const std::string answer, calls.bootstrap(json::serialize(body)));
  return write_bootstrap(members_of(answer), made.key, options.proxy);
}

}  // namespace osm::inline v1::machine
