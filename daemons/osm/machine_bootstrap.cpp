#include "machine_bootstrap.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <cerrno>
#include <filesystem>
#include <regex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "command.hpp"
#include "osm/ids.hpp"
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

// Makes the directory. Failure: kStorage, if it cannot be made or written to; kConflict, if it has
// another machine's files, or other files of their names.
Status prepare_directory(const std::string& directory, const WorkloadName& machine) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
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

}  // namespace

void add_proxy_options(CLI::App& app, ProxyOptions& options) {
  app.add_option("--owner", options.write.owner,
                 "User id that Envoy runs as (default: 1500 for root, else the current user)");
  app.add_option("--xds", options.xds,
                 "Variant of xDS: delta (only changed resources), or sotw (state of the world:\n"
                 "all clusters or all listeners each time)")
      ->check(CLI::IsMember({"delta", "sotw"}))
      ->capture_default_str();
  app.add_flag("--grpc", options.grpc,
               "Also write grpc_bootstrap.json for applications whose gRPC library is in the mesh\n"
               "without Envoy; `osm vm renew` then keeps their certificate in workload_*.pem");
}

void complete(ProxyOptions& options) {
  WriteOptions& write = options.write;
  write.directory = absolute(write.directory);
  // Envoy's user: it owns the files, and interception leaves its traffic alone.
  if (!write.owner) write.owner = ::geteuid() == 0 ? 1500 : ::geteuid();
}

Result<certificate::KeyAndRequest> prepare(const json::value& subject,
                                           const std::string& directory) {
  OSM_TRY(const certificate::KeyParameters key, decode_key(subject));
  OSM_TRY(prepare_directory(directory, {text_at(subject, "namespace"), text_at(subject, "name")}));
  return certificate::make_request(
      {CommonName(text_at(subject, "common_name")), SpiffeId(text_at(subject, "spiffe_id")),
       certificate::Usage::kProxy},
      key);
}

namespace {

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

// The commands that keep the proxy certificate current. The units look in /etc/osm only.
std::string renewal_of(const std::string& directory) {
  const std::filesystem::path path(directory);
  std::string text =
      fmt::format("  osm vm renew --dir {} --every 10m  # keeps running\n", directory);
  if (path.parent_path() == "/etc/osm")
    text += fmt::format("  systemctl enable --now osm-renew@{}.timer  # or this, with systemd\n",
                        path.filename().string());
  return text;
}

}  // namespace

std::string next_steps(const json::value& written) {
  const std::string directory = text_at(written, "directory");
  std::string names;
  bool grpc = false;
  for (const json::value& name : list_at(written, "files")) {
    grpc = grpc || name == json::value("grpc_bootstrap.json");
    names += (names.empty() ? "" : ", ") + std::string(name.as_string());
  }
  std::string text = fmt::format(
      "Wrote {0}: {1}\nProxy {2}, certificate {3}: Envoy is served with it until {4}, and it can "
      "be "
      "renewed until {5}.\n\n"
      "On the machine, as root:\n"
      "  sed -i '/^# Begin of the names of the mesh/,/^# End of the names of the mesh/d' "
      "/etc/hosts\n"
      "  cat {0}/hosts >> /etc/hosts      # the mesh's names, in place of former ones\n"
      "  {0}/intercept.sh                 # undo with --remove\n"
      "Start Envoy with the command at the top of {0}/bootstrap.yaml, and keep the certificate "
      "current:\n{6}",
      directory, names, text_at(written, "uuid"), text_at(written, "common_name"),
      text_at(written, "served_until"), text_at(written, "not_after"), renewal_of(directory));
  if (grpc)
    text += fmt::format(
        "For gRPC in place of Envoy, without intercept.sh:\n"
        "  osm vm renew --dir {0}           # once before it starts: the workload's certificate\n"
        "and start the application with GRPC_XDS_BOOTSTRAP={0}/grpc_bootstrap.json.\n",
        directory);
  return text;
}

Result<json::value> write_bootstrap(const json::value& answer, const certificate::PrivateKey& key,
                                    const WriteOptions& options) {
  const json::array& files = list_at(answer, "files");
  if (files.empty()) return Error{ErrorCode::kInternal, "the controller's answer holds no files"};
  OSM_TRY(const ProxyFilesLock lock,
          ProxyFilesLock::take(options.directory, ProxyFilesLock::Other::kAwait));
  const File key_file{std::string(inject::kProxyKeyFile), 0600, true, key.pem()};
  OSM_TRY(write_file(key_file, options));
  json::array names{json::value(key_file.name)};
  for (const json::value& value : files) {
    OSM_TRY(const File file, decode_file(value));
    OSM_TRY(write_file(file, options));
    names.emplace_back(file.name);
  }
  return json::value{{"directory", options.directory},
                     {"files", std::move(names)},
                     {"uuid", text_at(answer, "uuid")},
                     {"common_name", text_at(answer, "common_name")},
                     {"served_until", text_at(answer, "served_until")},
                     {"not_after", text_at(answer, "not_after")}};
}

}  // namespace osm::cli
