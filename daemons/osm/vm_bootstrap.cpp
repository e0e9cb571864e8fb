#include "vm_bootstrap.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "osm/certificate_request.hpp"
#include "osm/vm_bootstrap.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

Error storage(const std::string& path, std::string_view remedy) {
  const int reason = errno;
  return {ErrorCode::kStorage,
          fmt::format("{}: {}. {}", path, std::generic_category().message(reason), remedy)};
}

// Closes and, until committed, removes.
class TemporaryFile {
 public:
  TemporaryFile(std::string path, mode_t mode)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)) {}
  ~TemporaryFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!committed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  bool commit(const std::string& final_path) {
    committed_ = ::rename(path_.c_str(), final_path.c_str()) == 0;
    return committed_;
  }

 private:
  std::string path_;
  int fd_;
  bool committed_ = false;
};

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

struct File {
  std::string name;
  mode_t mode = 0600;
  bool proxys = true;
  std::string_view content;
};

Status write_file(const File& file, const WriteOptions& options) {
  const std::string path = options.directory + '/' + file.name;
  TemporaryFile temporary(fmt::format("{}/.{}.{}", options.directory, file.name, ::getpid()),
                          file.mode);
  constexpr std::string_view kRemedy = "Check the directory's free space and permissions";
  if (temporary.fd() < 0) return storage(path, kRemedy);
  if (file.proxys && options.owner && ::fchown(temporary.fd(), *options.owner, *options.owner)) {
    return storage(path, "Run as root, or leave --owner to the current user");
  }
  if (::fchmod(temporary.fd(), file.mode) || !write_all(temporary.fd(), file.content) ||
      ::fsync(temporary.fd()) || !temporary.commit(path)) {
    return storage(path, kRemedy);
  }
  return {};
}

Error malformed_answer() {
  return {ErrorCode::kInternal, "the controller's answer is not of this version"};
}

std::string text_member(const json::value& answer, const char* name) {
  const auto* value = answer.is_object() ? answer.as_object().if_contains(name) : nullptr;
  return value && value->is_string() ? std::string(value->as_string()) : std::string();
}

Result<certificate::KeyParameters> decode_key(const json::value& subject) {
  const std::string algorithm = text_member(subject, "key_algorithm");
  if (algorithm == "ECDSA") return certificate::KeyParameters{KeyType::kEcdsaP256};
  if (algorithm == "Ed25519") return certificate::KeyParameters{KeyType::kEd25519};
  const auto* bits =
      subject.is_object() ? subject.as_object().if_contains("rsa_key_bits") : nullptr;
  if (algorithm != "RSA" || !bits || !bits->is_int64()) return malformed_answer();
  return certificate::KeyParameters{KeyType::kRsa, static_cast<int>(bits->as_int64())};
}

// Of the kind the mesh asks for, for whom the controller says the machine is.
Result<certificate::KeyAndRequest> make_key(const AdminClient& client,
                                            const WorkloadName& machine) {
  OSM_TRY(const json::value subject,
          client.get("/v1/vm/subject", {{"name", machine.name}, {"namespace", machine.ns}}));
  OSM_TRY(const certificate::KeyParameters key, decode_key(subject));
  return certificate::make_request(
      {CommonName(text_member(subject, "common_name")), SpiffeId(text_member(subject, "spiffe_id")),
       certificate::Usage::kProxy},
      key);
}

Result<File> decode_file(const json::value& value) {
  const Error malformed = malformed_answer();
  const json::object* object = value.if_object();
  if (!object) return malformed;
  const auto* name = object->if_contains("name");
  const auto* mode = object->if_contains("mode");
  const auto* proxys = object->if_contains("proxys");
  const auto* content = object->if_contains("content");
  if (!name || !name->is_string() || !mode || !mode->is_int64() || !proxys || !proxys->is_bool() ||
      !content || !content->is_string()) {
    return malformed;
  }
  File file{std::string(name->as_string()), static_cast<mode_t>(mode->as_int64() & 0777),
            proxys->as_bool(), content->as_string()};
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos) {
    return malformed;
  }
  return file;
}

std::string next_steps(const json::value& answer, const WriteOptions& options,
                       const std::string& names) {
  return fmt::format(
      "Wrote {0}: {1}\nProxy {2}, certificate {3} until {4}.\n\n"
      "On the machine, as root:\n"
      "  cat {0}/hosts >> /etc/hosts      # the mesh's names\n"
      "  {0}/intercept.sh                 # undo with --remove\n"
      "and start Envoy with the command at the top of {0}/bootstrap.yaml.\n",
      options.directory, names, text_member(answer, "uuid"), text_member(answer, "common_name"),
      text_member(answer, "not_after"));
}

Result<std::string> write_bootstrap(const json::value& answer, const certificate::PrivateKey& key,
                                    const WriteOptions& options) {
  const json::object* object = answer.if_object();
  const json::value* files = object ? object->if_contains("files") : nullptr;
  if (!files || !files->is_array() || files->as_array().empty()) {
    return Error{ErrorCode::kInternal, "the controller's answer holds no files"};
  }
  std::error_code failed;
  std::filesystem::create_directories(options.directory, failed);
  if (failed) {
    return Error{ErrorCode::kStorage,
                 fmt::format("{}: {}. Choose another --out", options.directory, failed.message())};
  }
  const File key_file{std::string(inject::kProxyKeyFile), 0600, true, key.pem()};
  if (const Status written = write_file(key_file, options); !written.ok()) return written.error();
  std::string names = key_file.name;
  for (const json::value& value : files->as_array()) {
    OSM_TRY(const File file, decode_file(value));
    if (const Status written = write_file(file, options); !written.ok()) return written.error();
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
