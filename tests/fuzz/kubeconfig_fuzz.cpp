// A kubeconfig → server and credentials: what is accepted goes over TLS to one server with one kind
// of credentials, and no refusal quotes a secret. Another party's names no program and no file
// but those that bear its name.
//
//   input: '0', then a whole file; or '1', the form of a secret ('0' to '5'), then lines: further
//   fields of the user, fields of the cluster, the rest of the file.
#include <algorithm>
#include <array>

#include "fuzz/fuzz.hpp"
#include "fuzz/memory_file.hpp"
#include "kubernetes/client/access.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using kubernetes::Access;

constexpr std::string_view kSecret = "s3cr3tw0rd";
// The first field of the user, before anything that a fuzzer may change.
constexpr std::array<std::string_view, 6> kForms{
    "token: \"s3cr3tw0rd\"",    "token: s3cr3tw0rd",       "client-key-data: s3cr3tw0rd",
    "password: \"s3cr3tw0rd\"", "token: [\"s3cr3tw0rd\"]", "token: *s3cr3tw0rd"};

std::string file_from(Choices& choices) {
  std::string file = "users: [{name: u, user: {" + std::string(kForms[choices.below(6)]) + ", ";
  const std::string user = choices.line();
  const std::string cluster = choices.line();
  std::string rest(choices.rest());
  for (std::string text : {user, cluster, rest})
    if (text.find(kSecret) != std::string::npos) return "";
  return file + user + "}}]\nclusters: [{name: k, cluster: {" + cluster + "}}]\n" + rest;
}

void check(const Access& access) {
  require(access.server.starts_with("https://"), "credentials go over TLS", access.server);
  require(!access.address.is_unix() && !access.address.host.empty(), "a server has an address");
  require(access.base_path.empty() || access.base_path.front() == '/', "a base path is a path");
  require(access.token.find_first_of("\r\n") == std::string::npos, "a token is one line");
  const bool key = access.client_key != nullptr || !access.client_key_file.empty();
  require(access.client_certificate.empty() != key, "a certificate has a key");
  const bool token = !access.token.empty() || !access.token_file.empty();
  require(access.token.empty() || access.token_file.empty(), "there is one token");
  require(!access.exec || (!token && !key), "a plugin is the only credential");
  require(!access.exec || !access.exec->command.empty(), "a plugin has a command");
  for (const std::string& path :
       {access.token_file, access.client_key_file, access.certificate_authority.path})
    require(path.empty() || path.front() == '/', "paths are absolute", path);
}

// As a file of --remote-clusters: it may say what any kubeconfig says, without its powers.
void check_foreign(const std::string& path, const Result<Access>& own) {
  const auto access = kubernetes::read_kubeconfig(path, "", kubernetes::Author::kOther);
  if (!access.ok()) {
    require(access.error().message.starts_with(path), "a refusal names the file",
            access.error().message);
    return;
  }
  require(own.ok() && access->server == own->server, "another author reaches the same server");
  require(!access->exec, "another party's kubeconfig runs no program");
  const auto slash = path.rfind('/');
  const std::string beside = path.substr(0, slash + 1) + '.' + path.substr(slash + 1) + '.';
  for (const std::string& file :
       {access->token_file, access->client_key_file, access->client_certificate.path,
        access->certificate_authority.path})
    require(file.empty() ||
                (file.starts_with(beside) && file.find('/', beside.size()) == std::string::npos),
            "another party's kubeconfig names its own files only", file);
}

void run(Choices choices) {
  const bool secret = choices.flag();
  const std::string text = secret ? file_from(choices) : std::string(choices.rest());
  const MemoryFile file(text);
  const auto access = kubernetes::read_kubeconfig(file.path(), "");
  check_foreign(file.path(), access);
  if (access.ok()) {
    check(*access);
    const auto again = kubernetes::read_kubeconfig(file.path(), "");
    require(again.ok() && again->server == access->server && again->token == access->token &&
                again->origin == access->origin,
            "a file reads the same twice");
    return;
  }
  const Error& error = access.error();
  require(error.message.starts_with(file.path()), "a refusal names the file", error.message);
  require(!secret || error.message.find(kSecret) == std::string::npos, "a refusal quotes no secret",
          error.message);
}

const bool kAdded = add("kubeconfig", [](std::string_view input) { run(Choices(input)); });

}  // namespace
