#include "remote/channel.hpp"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/descriptor.hpp"
#include "base/numbers.hpp"
#include "base/read_file.hpp"
#include "osm/net/address.hpp"

namespace osm::inline v1::remote {
namespace {

constexpr std::size_t kMaxFile = 1024 * 1024;

Error invalid(const RemoteProviderOptions& options, const std::string& field,
              const std::string& cause) {
  return {ErrorCode::kInvalidArgument, "provider '" + options.name + "': " + field + ": " + cause};
}

std::string text_of_errno(int code) { return std::generic_category().message(code); }

// nullopt: there is no such user.
std::optional<uid_t> user_of(const std::string& text) {
  if (const auto number = number_of<uid_t>(text)) return *number;
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(text.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || !found)
    return std::nullopt;
  return entry.pw_uid;
}

Status check_peer(const Descriptor& socket, const RemoteProviderOptions& options) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return Error{ErrorCode::kPermissionDenied, options.address +
                                                   ": the user of its process cannot be read (" +
                                                   text_of_errno(errno) + ')'};
  if (options.user.empty() && (peer.uid == 0 || peer.uid == ::geteuid())) return {};
  const auto wanted = options.user.empty() ? std::nullopt : user_of(options.user);
  if (wanted && peer.uid == *wanted) return {};
  return Error{ErrorCode::kPermissionDenied,
               options.address + ": its process runs as user " + std::to_string(peer.uid) +
                   (options.user.empty()
                        ? ", who is neither the controller's user nor root; if the provider "
                          "shall run as another user, name it in the field `user`"
                        : ", not as " + options.user + " (field `user`)")};
}

grpc::ChannelArguments arguments_of(const RemoteProviderOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // A window that does not grow: a provider that sends faster than it is read waits.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.limits.message_bytes));
  return arguments;
}

Result<std::shared_ptr<grpc::Channel>> open_unix(const RemoteProviderOptions& options,
                                                 const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Error{ErrorCode::kUnavailable,
                 options.address + ": " + text_of_errno(errno) +
                     (errno == EACCES ? "; the controller's user needs the right to write to the "
                                        "socket, and to enter its directory"
                                      : "; is the provider running?")};
  // The process that listens, not the file: another user could have replaced that.
  OSM_TRY(check_peer(socket, options));
  grpc::ChannelArguments arguments = arguments_of(options);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  return grpc::CreateCustomInsecureChannelFromFd(options.address, socket.release(), arguments);
}

}  // namespace

Status check_options(const RemoteProviderOptions& options) {
  if (!is_dns_label(options.name))
    return invalid(options, "name", "must be a DNS label: lower-case letters, digits and '-'");
  const auto address = net::parse_address(options.address);
  if (!address.ok()) return invalid(options, "address", address.error().message);
  if (options.allow.empty())
    return invalid(
        options, "allow",
        "is empty, so that the provider could list nothing; name at least one namespace, "
        "as in `allow: [{namespace: shop}]`");
  for (const AllowedAccounts& allowed : options.allow)
    if (!is_dns_label(allowed.ns))
      return invalid(options, "allow", "'" + allowed.ns + "' is no namespace");
  if (options.heartbeat < std::chrono::seconds(1))
    return invalid(options, "heartbeat", "must be a second at least");
  if (options.limits.message_bytes > INT_MAX)
    return invalid(options, "limits", "a message has at most 2 GiB");
  const std::array<std::pair<const char*, const std::string*>, 3> files{
      {{"caFile", &options.ca_file},
       {"certificateFile", &options.certificate_file},
       {"keyFile", &options.key_file}}};
  if (address->is_unix()) {
    for (const auto& [field, file] : files)
      if (!file->empty())
        return invalid(options, field,
                       "is for HOST:PORT only; the kernel names the process behind "
                       "a Unix socket");
    if (!options.server_name.empty())
      return invalid(options, "serverName", "is for HOST:PORT only");
    return {};
  }
  for (const auto& [field, file] : files)
    if (file->empty())
      return invalid(options, field,
                     "is required: a provider on HOST:PORT is asked over mutual TLS only");
  if (!options.user.empty()) return invalid(options, "user", "is for Unix sockets only");
  return {};
}

Result<std::shared_ptr<grpc::Channel>> open_channel(const RemoteProviderOptions& options) {
  OSM_TRY(const net::Address address, net::parse_address(options.address));
  if (address.is_unix()) return open_unix(options, address.unix_path);
  grpc::SslCredentialsOptions tls;
  OSM_TRY(tls.pem_root_certs, read_file(options.ca_file, kMaxFile));
  OSM_TRY(tls.pem_cert_chain, read_file(options.certificate_file, kMaxFile));
  OSM_TRY(tls.pem_private_key, read_file(options.key_file, kMaxFile));
  grpc::ChannelArguments arguments = arguments_of(options);
  if (!options.server_name.empty()) arguments.SetSslTargetNameOverride(options.server_name);
  auto channel =
      grpc::CreateCustomChannel("dns:///" + address.str(), grpc::SslCredentials(tls), arguments);
  OPENSSL_cleanse(tls.pem_private_key.data(), tls.pem_private_key.size());
  return channel;
}

}  // namespace osm::inline v1::remote
