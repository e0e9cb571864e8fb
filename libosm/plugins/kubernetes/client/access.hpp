// Address and credentials of an API server, from a kubeconfig or from a pod's own files.
//
// https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ Settings
// that weaken the connection are refused: insecure-skip-tls-verify, http://.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/net/address.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::kubernetes {

// Inline PEM, or a file of it; neither: none.
struct PemSource {
  std::string path{};
  std::string pem{};

  bool empty() const { return path.empty() && pem.empty(); }
};

// A program that prints credentials.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
struct ExecPlugin {
  std::string command;  // a path, or a name to look up in PATH
  std::vector<std::string> arguments{};
  std::vector<std::pair<std::string, std::string>> environment{};  // in addition to the host's
  std::string api_version;
  bool provide_cluster_info = false;
  std::string install_hint{};
};

// Limit of a kubeconfig and of the files that it names.
inline constexpr std::size_t kMaxAccessFileBytes = 4 * 1024 * 1024;

struct Access {
  std::string server;  // "https://10.96.0.1:443/prefix"
  net::Address address;
  std::string base_path{};            // "/prefix", before every path of the API
  std::string tls_server_name{};      // empty: the address' host
  PemSource certificate_authority{};  // neither: the system's roots

  PemSource client_certificate{};
  std::string client_key_file{};
  std::shared_ptr<const certificate::PrivateKey> client_key{};  // inline
  std::string token{};
  std::string token_file{};
  std::optional<ExecPlugin> exec{};

  std::string origin{};  // name in errors: the kubeconfig with its context, or the pod
  bool foreign = false;  // another party wrote it: the files lie in one directory, and stay in it

  // The content of one of these files. Failure: as read_file(). Blocking: reads a small file.
  Result<std::string> read(const std::string& path) const;
};

// Powers of a kubeconfig by its author.
enum class Author {
  kOperator,  // whoever runs this program
  // Another party, which must not act as this program, nor learn what it can read: exec is refused,
  // and so is every path but that of a file beside the kubeconfig `west` named ".west.<anything>".
  kOther,
};

// Result: the context's cluster and user; an empty `context` is the current one. Paths are made
// absolute.
// Failure: kUnreadableSource, kInvalidSyntax, kInvalidField, kNotFound (no such context), naming
// file, field and remedy, without values of secret fields. Blocking: reads the file.
Result<Access> read_kubeconfig(const std::string& path, const std::string& context,
                               Author author = Author::kOperator);

// Result: the API server of this pod and its ServiceAccount's token file.
// Failure: kNotFound (not in a pod). Blocking: reads files.
Result<Access> read_service_account(const std::map<std::string, std::string>& environment,
                                    const std::string& directory);

}  // namespace osm::inline v1::kubernetes
