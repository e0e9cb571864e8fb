#include "machine/proxy_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <system_error>
#include <utility>

#include "base/openssl.hpp"
#include "base/read_file.hpp"
#include "base/write_file.hpp"
#include "osm/inject/vm_bootstrap.hpp"

namespace osm::inline v1::machine {
namespace {

constexpr const char* kCertificate = "sds_cert.pem";
constexpr const char* kTrustBundle = "cacert.pem";
constexpr const char* kBootstrap = "bootstrap.yaml";
constexpr const char* kNames = "validation_context_sds_secret.yaml";
constexpr const char* kRepeat = "Run `osm vm bootstrap` for this machine again";

const std::string kKey(inject::kProxyKeyFile);

Result<std::string> read_text(const std::string& path) {
  Result<std::string> text = read_file(path, kMaxFileBytes);
  if (text.ok() && !text->empty()) return text;
  return Error{ErrorCode::kStorage,
               fmt::format("{}: cannot be read, or is empty. Is --dir what `osm vm bootstrap "
                           "--out` wrote, and this user root?",
                           path)};
}

// Reads the times of the certificate, whose key the other file must hold.
Status check_pair(const std::string& directory, ProxyFiles& files) {
  const openssl::CleanErrorQueue clean;
  const auto chain = openssl::parse_certificates(files.chain_pem);
  if (!chain.ok())
    return Error{ErrorCode::kInvalidSyntax,
                 fmt::format("{}/{}: holds no certificate. {}", directory, kCertificate, kRepeat)};
  X509* const leaf = chain->front().get();
  const openssl::Key key(PEM_read_bio_PrivateKey(openssl::reader_of(files.key.pem()).get(), nullptr,
                                                 openssl::no_passphrase, nullptr));
  if (!key || X509_check_private_key(leaf, key.get()) != 1)
    return Error{
        ErrorCode::kInvalidCertificate,
        fmt::format("{}/{}: is not the key of {}. {}", directory, kKey, kCertificate, kRepeat)};
  files.not_before = openssl::not_before(*leaf);
  files.not_after = openssl::not_after(*leaf);
  return {};
}

// The SPIFFE ids that a file takes for the controller.
std::vector<std::string> ids_of(const std::string& text) {
  static const std::regex kId(R"re(exact: "(spiffe://[^"/]+/osm/controller)")re");
  std::vector<std::string> ids;
  for (std::sregex_iterator at(text.begin(), text.end(), kId), end; at != end; ++at)
    ids.push_back((*at)[1]);
  return ids;
}

// The file with these in place of those that it names, if it names any.
Result<std::string> with_ids(const std::string& text, const std::vector<std::string>& ids) {
  constexpr std::string_view kList = "    match_typed_subject_alt_names:\n";
  std::string out = text.substr(0, text.find(kList)).append(kList);
  for (const std::string& id : ids) {
    static const std::regex kId("spiffe://[a-z0-9.-]+/osm/controller");
    if (!std::regex_match(id, kId))
      return Error{ErrorCode::kInvalidSyntax, "the controller names itself '" + id +
                                                  "', which this version does not know: update "
                                                  "this command"};
    out += fmt::format("    - {{san_type: URI, matcher: {{exact: \"{}\"}}}}\n", id);
  }
  return out;
}

// The controller that Envoy's bootstrap names. libosm/inject/envoy_bootstrap.cpp writes that file.
Status read_bootstrap(const std::string& path, const std::string& text, ProxyFiles& files) {
  static const std::regex kAddress(
      R"re(socket_address: \{address: "([^"]+)", port_value: (\d+)\})re");
  const std::string cluster =
      text.substr(std::min(text.find("cluster_name: osm-controller"), text.size()));
  std::smatch address;
  if (std::regex_search(cluster, address, kAddress)) {
    const std::string host = address[1];
    files.controller =
        (host.find(':') == std::string::npos ? host : '[' + host + ']') + ':' + address[2].str();
  }
  files.controller_ids = ids_of(text);
  if (files.controller.empty() || files.controller_ids.empty())
    return Error{
        ErrorCode::kInvalidSyntax,
        fmt::format("{}: names no controller, or not whom to take for it. {}", path, kRepeat)};
  return {};
}

std::string staged_name(const std::string& name) { return '.' + name + ".new"; }

// True for what a killed process leaves of a machine's file: a staged one, or write_file()'s
// `.NAME.PID`. An editor's `.hosts.swp` is somebody's own.
bool is_left_over(std::string_view name) {
  return std::any_of(
      std::begin(kMachineFiles), std::end(kMachineFiles), [&](std::string_view file) {
        const std::string prefix = fmt::format(".{}.", file);
        if (!name.starts_with(prefix)) return false;
        const std::string_view rest = name.substr(prefix.size());
        return rest == "new" ||
               (!rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos);
      });
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string_view::npos;
}

Status write_files(const WriteOptions& options, const certificate::PrivateKey& key,
                   const std::vector<inject::BootstrapFile>& files) {
  for (const inject::BootstrapFile& file : files)
    if (!is_plain_name(file.name))
      return Error{ErrorCode::kInvalidArgument,
                   "'" + file.name + "' is no name of a file within a directory: leave it out"};
  OSM_TRY(const ProxyFilesLock lock,
          ProxyFilesLock::take(options.directory, ProxyFilesLock::Other::kAwait));
  std::optional<FileOwner> owner;
  if (options.owner) owner = {*options.owner, *options.owner};
  OSM_TRY(write_file({options.directory + '/' + kKey, 0600, owner, key.pem()}));
  for (const inject::BootstrapFile& file : files)
    OSM_TRY(write_file({options.directory + '/' + file.name, file.mode,
                        file.proxys ? owner : std::nullopt, file.content}));
  return {};
}

Result<ProxyFilesLock> ProxyFilesLock::take(const std::string& directory, Other other) {
  Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return file_error(directory, "Is --dir what `osm vm bootstrap --out` wrote?");
  ProxyFilesLock locked(directory, std::move(opened));
  const int operation = other == Other::kAwait ? LOCK_EX : LOCK_EX | LOCK_NB;
  while (::flock(locked.fd_.get(), operation) != 0) {
    if (errno == EWOULDBLOCK)
      return Error{ErrorCode::kConflict,
                   directory + ": another `osm vm renew` is at it; one at a time is enough"};
    if (errno != EINTR)
      return file_error(directory, "It cannot be locked: choose one on a disk of this machine");
  }
  // Without the new key the certificate is that of the key that is there.
  if (locked.staged(kCertificate) && !locked.staged(kKey)) OSM_TRY(locked.commit(kCertificate));
  locked.discard();
  return locked;
}

Result<ProxyFiles> ProxyFilesLock::read() const {
  ProxyFiles files;
  const std::string prefix = directory_ + '/';
  OSM_TRY(const std::string bootstrap, read_text(prefix + kBootstrap));
  OSM_TRY(read_bootstrap(prefix + kBootstrap, bootstrap, files));
  OSM_TRY(const std::string names, read_text(prefix + kNames));
  files.named_ids = ids_of(names);
  auto& ids = files.controller_ids;
  for (const std::string& id : files.named_ids)
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  OSM_TRY(files.chain_pem, read_text(prefix + kCertificate));
  OSM_TRY(std::string key, read_text(prefix + kKey));
  files.key = certificate::PrivateKey(std::move(key));
  OSM_TRY(files.trust_bundle_pem, read_text(prefix + kTrustBundle));
  OSM_TRY(check_pair(directory_, files));
  struct stat status {};
  if (::fstatat(fd_.get(), kKey.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return file_error(prefix + kKey, kRepeat);
  files.owner = status.st_uid;
  files.group = status.st_gid;
  return files;
}

Status ProxyFilesLock::replace(const NewProxyFiles& files) const {
  const auto all = [&]() -> Status {
    const bool certificate = !files.chain_pem.empty();
    if (!files.controller_ids.empty()) {
      OSM_TRY(const std::string before, read_text(directory_ + '/' + kNames));
      OSM_TRY(const std::string after, with_ids(before, files.controller_ids));
      OSM_TRY(stage(kNames, after));
      OSM_TRY(commit(kNames));
    }
    // The key's is the first that is there and the last to go: see take().
    if (certificate) {
      OSM_TRY(stage(kKey, files.key.pem()));
      OSM_TRY(stage(kCertificate, files.chain_pem));
    }
    const bool bundle = !files.trust_bundle_pem.empty();
    if (bundle) OSM_TRY(stage(kTrustBundle, files.trust_bundle_pem));
    if (certificate) {
      OSM_TRY(commit(kKey));
      OSM_TRY(commit(kCertificate));
    }
    return bundle ? commit(kTrustBundle) : Status();
  };
  Status done = all();
  if (!done.ok() && (staged(kKey) || !staged(kCertificate))) discard();
  if (::fsync(fd_.get()) != 0 && done.ok()) return file_error(directory_, kFreeSpace);
  return done;
}

Status ProxyFilesLock::stage(const std::string& name, std::string_view content) const {
  const std::string path = directory_ + '/' + name;
  struct stat present {};
  if (::lstat(path.c_str(), &present) != 0) return file_error(path, kRepeat);
  if (!S_ISREG(present.st_mode))
    return Error{ErrorCode::kStorage, fmt::format("{}: is no file. {}", path, kRepeat)};
  return write_new_file(
      directory_ + '/' + staged_name(name),
      {path, present.st_mode & 07777, FileOwner{present.st_uid, present.st_gid}, content});
}

Status ProxyFilesLock::commit(const std::string& name) const {
  if (::renameat(fd_.get(), staged_name(name).c_str(), fd_.get(), name.c_str()) != 0)
    return file_error(directory_ + '/' + name, kFreeSpace);
  return {};
}

bool ProxyFilesLock::staged(const std::string& name) const {
  return ::faccessat(fd_.get(), staged_name(name).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void ProxyFilesLock::discard() const {
  for (const std::string& name :
       {std::string(kCertificate), std::string(kTrustBundle), std::string(kNames), kKey})
    ::unlinkat(fd_.get(), staged_name(name).c_str(), 0);
}

Status ProxyFilesLock::try_owner(std::uint32_t owner) const {
  const std::string temporary = fmt::format("{}/.{}.{}", directory_, kKey, ::getpid());
  ::unlink(temporary.c_str());
  OSM_TRY(write_new_file(temporary, {directory_ + '/' + kKey, 0600, FileOwner{owner, owner}, ""}));
  ::unlink(temporary.c_str());
  return {};
}

Result<bool> ProxyFilesLock::remove_all() const {
  std::vector<std::string> names(std::begin(kMachineFiles), std::end(kMachineFiles));
  std::error_code failed;
  for (std::filesystem::directory_iterator at(directory_, failed), end; !failed && at != end;
       at.increment(failed))
    if (std::string name = at->path().filename().string(); is_left_over(name))
      names.push_back(std::move(name));
  for (const std::string& name : names)
    if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT)
      return file_error(fmt::format("{}/{}", directory_, name), "Delete it by hand");
  return ::rmdir(directory_.c_str()) == 0;
}

}  // namespace osm::inline v1::machine
