// Kubeconfigs and in-cluster settings lead to a server, and faults are named.
#include "kubernetes/client/access.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/temporary_directory.hpp"

using namespace osm;

namespace {

using kubernetes::Access;
using kubernetes::read_kubeconfig;
using kubernetes::read_service_account;

std::string kubeconfig(const std::string& cluster, const std::string& user) {
  return "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
         "contexts: [{name: c, context: {cluster: k, user: u, namespace: mesh}}]\n"
         "clusters: [{name: k, cluster: {" +
         cluster + "}}]\nusers: [{name: u, user: {" + user + "}}]\n";
}

const std::string kServer = "server: \"https://10.0.0.1:6443\"";

// "-----BEGIN x-----" in base64.
const std::string kPem = "LS0tLS1CRUdJTiB4LS0tLS0=";

TEST_SUITE("kubernetes::access") {
  TEST_CASE("a kubeconfig leads to a server, its roots and a user") {
    const testing::TemporaryDirectory directory;
    const std::string file = directory.write(
        "config", kubeconfig(kServer + ", certificate-authority: ca.pem, tls-server-name: api",
                             "client-certificate-data: " + kPem + ", client-key: keys/key.pem"));
    const auto access = read_kubeconfig(file, "");
    REQUIRE_MESSAGE(access.ok(), (access.ok() ? "" : access.error().text()));
    CHECK(access->address.str() == "10.0.0.1:6443");
    CHECK(access->tls_server_name == "api");
    CHECK(access->certificate_authority.path == directory.str() + "/ca.pem");
    CHECK(access->client_certificate.pem == "-----BEGIN x-----");
    CHECK(access->client_key_file == directory.str() + "/keys/key.pem");
    CHECK(access->origin == file + " (context c)");
  }

  TEST_CASE("servers are written with and without port, as names, IPv6 addresses, below a path") {
    struct Case {
      const char* server;
      const char* address;
      const char* base_path;
    };
    for (const Case& c : {Case{"https://api.example.org", "api.example.org:443", ""},
                          Case{"https://[fd00::1]:6443/", "[fd00::1]:6443", ""},
                          Case{"https://[fd00::1]", "[fd00::1]:443", ""},
                          Case{"https://host/k8s/clusters/a/", "host:443", "/k8s/clusters/a"}}) {
      CAPTURE(c.server);
      const testing::TemporaryDirectory directory;
      const auto access = read_kubeconfig(
          directory.write("config", kubeconfig("server: \"" + std::string(c.server) + '"', "")),
          "");
      REQUIRE_MESSAGE(access.ok(), (access.ok() ? "" : access.error().text()));
      CHECK(access->address.str() == c.address);
      CHECK(access->base_path == c.base_path);
    }
  }

  TEST_CASE("a plugin is described by its command, arguments and environment") {
    const testing::TemporaryDirectory directory;
    const auto access = read_kubeconfig(
        directory.write("config",
                        kubeconfig(kServer,
                                   "exec: {apiVersion: client.authentication.k8s.io/v1, command: "
                                   "./plugin, args: [a, b], env: [{name: N, value: v}], "
                                   "interactiveMode: Never, provideClusterInfo: true}")),
        "");
    REQUIRE_MESSAGE(access.ok(), (access.ok() ? "" : access.error().text()));
    REQUIRE(access->exec);
    CHECK(access->exec->command == directory.str() + "/plugin");
    CHECK(access->exec->arguments == std::vector<std::string>{"a", "b"});
    CHECK(access->exec->environment.front() == std::pair<std::string, std::string>("N", "v"));
    CHECK(access->exec->provide_cluster_info);
  }

  TEST_CASE("unusable input is refused with file, field and remedy, without its value") {
    struct Case {
      std::string cluster;
      std::string user;
      std::string message;
    };
    const std::string exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: x";
    for (const Case& c : {
             Case{kServer + ", insecure-skip-tls-verify: true", "",
                  "clusters[k].cluster.insecure-skip-tls-verify: is not supported: the server is "
                  "always verified"},
             Case{"server: \"http://10.0.0.1\"", "",
                  "clusters[k].cluster.server: must begin with https://"},
             Case{"server: \"https://a:b@c:1\"", "",
                  "clusters[k].cluster.server: is not an address"},
             Case{"server: \"https://a:99999\"", "",
                  "clusters[k].cluster.server: is not an address"},
             Case{"", "", "clusters[k].cluster.server: required"},
             Case{kServer + ", proxy-url: \"http://p\"", "", "clusters[k].cluster.proxy-url: "},
             Case{kServer + ", certificate-authority-data: \"s3cr*t\"", "",
                  "clusters[k].cluster.certificate-authority-data: is not base64"},
             Case{kServer + ", certificate-authority-data: c2VjcmV0", "",
                  "clusters[k].cluster.certificate-authority-data: is not PEM"},
             Case{kServer, "username: u, password: s3cr*t", "users[u].user.username: is no longer"},
             Case{kServer, "auth-provider: {name: gcp}",
                  "users[u].user.auth-provider: is no longer"},
             Case{kServer, "as: somebody", "users[u].user.as: is not supported"},
             Case{kServer, "token: [s3cr*t]", "users[u].user.token: must be a string"},
             Case{kServer, "token: \"s3cr*t\\n\"", "users[u].user.token: has a line break"},
             Case{kServer, "client-certificate-data: " + kPem,
                  "users[u].user.client-key: required"},
             Case{kServer, "client-key: k.pem", "users[u].user.client-certificate: required"},
             Case{kServer, exec + "}, token: s3cr*t", "users[u].user.exec: stands beside other"},
             Case{kServer, exec + ", interactiveMode: Always}",
                  "users[u].user.exec.interactiveMode: is Always"},
             Case{kServer, exec + ", args: [[s3cr*t]]}", "users[u].user.exec.args: must be a list"},
             Case{kServer, exec + ", env: [s3cr*t]}", "users[u].user.exec.env: must be a list"},
             Case{kServer, "exec: {command: x}", "users[u].user.exec.apiVersion: must be client."},
         }) {
      CAPTURE(c.message);
      const testing::TemporaryDirectory directory;
      const std::string file = directory.write("config", kubeconfig(c.cluster, c.user));
      const auto access = read_kubeconfig(file, "");
      REQUIRE_FALSE(access.ok());
      CHECK(access.error().code == ErrorCode::kInvalidField);
      CHECK_MESSAGE(access.error().message.starts_with(file + ": " + c.message),
                    access.error().message);
      CHECK(access.error().message.find("s3cr*t") == std::string::npos);
    }
  }

  TEST_CASE("another party's kubeconfig runs no program and names no file but its own") {
    const auto read = [](const std::string& file) {
      return read_kubeconfig(file, "", kubernetes::Author::kOther);
    };
    struct Case {
      std::string cluster;
      std::string user;
      std::string field;
    };
    for (const Case& c : {
             Case{kServer, "exec: {apiVersion: client.authentication.k8s.io/v1, command: x}",
                  "users[u].user.exec"},
             Case{kServer, "exec: {}", "users[u].user.exec"},
             Case{kServer, "tokenFile: /run/token", "users[u].user.tokenFile"},
             Case{kServer, "tokenFile: ../token", "users[u].user.tokenFile"},
             Case{kServer, "tokenFile: token", "users[u].user.tokenFile"},
             Case{kServer, "tokenFile: .east.token", "users[u].user.tokenFile"},
             Case{kServer, "tokenFile: .west-2.token", "users[u].user.tokenFile"},
             Case{kServer, "tokenFile: .west.token/../../token", "users[u].user.tokenFile"},
             Case{kServer, "token: t, tokenFile: /run/token", "users[u].user.tokenFile"},
             Case{kServer, "client-certificate-data: " + kPem + ", client-key: /run/key",
                  "users[u].user.client-key"},
             Case{kServer, "client-certificate: /run/crt, client-key-data: " + kPem,
                  "users[u].user.client-certificate"},
             Case{kServer + ", certificate-authority: /run/ca", "",
                  "clusters[k].cluster.certificate-authority"},
         }) {
      CAPTURE(c.cluster);
      CAPTURE(c.user);
      const testing::TemporaryDirectory directory;
      const std::string file = directory.write("west", kubeconfig(c.cluster, c.user));
      const auto access = read(file);
      REQUIRE_FALSE(access.ok());
      CHECK(access.error().code == ErrorCode::kInvalidField);
      CHECK_MESSAGE(access.error().message.starts_with(file + ": " + c.field +
                                                       ": a kubeconfig of another party may"),
                    access.error().message);
    }
    const testing::TemporaryDirectory directory;
    directory.write("secret", "secret");
    std::filesystem::create_directory(directory.path() / "clusters");
    directory.write("clusters/.west.ca.crt", "ca");
    std::filesystem::create_symlink("../secret", directory.path() / "clusters/.west.token");
    const auto access = read(directory.write(
        "clusters/west",
        kubeconfig(kServer + ", certificate-authority: .west.ca.crt", "tokenFile: .west.token")));
    REQUIRE_MESSAGE(access.ok(), (access.ok() ? "" : access.error().text()));
    CHECK(access->token_file == directory.str() + "/clusters/.west.token");
    CHECK(access->read(access->certificate_authority.path).value() == "ca");
    CHECK_FALSE(access->read(access->token_file).ok());
    CHECK(read(directory.write("clusters/north", kubeconfig(kServer, "token: t")))->token == "t");
  }

  TEST_CASE("contexts, clusters and users that are not there are named, with those that are") {
    const testing::TemporaryDirectory directory;
    const std::string file = directory.write("config", kubeconfig(kServer, ""));
    const auto other = read_kubeconfig(file, "other");
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().code == ErrorCode::kNotFound);
    CHECK(other.error().message == file + ": contexts: has no \"other\"; it has c");
    const auto no_current = read_kubeconfig(directory.write("none", "contexts: []\n"), "");
    REQUIRE_FALSE(no_current.ok());
    CHECK(no_current.error().message.find("current-context: is not set") != std::string::npos);
    const auto dangling = read_kubeconfig(
        directory.write("dangling",
                        "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\n"),
        "");
    REQUIRE_FALSE(dangling.ok());
    CHECK(dangling.error().message.find("clusters: has no \"k\"; it has none") !=
          std::string::npos);
  }

  TEST_CASE("a file that is no kubeconfig is named") {
    const testing::TemporaryDirectory directory;
    const auto absent = read_kubeconfig(directory.str() + "/absent", "");
    REQUIRE_FALSE(absent.ok());
    CHECK(absent.error().code == ErrorCode::kUnreadableSource);
    CHECK(absent.error().message.starts_with(directory.str() + "/absent: cannot be read: No such"));
    CHECK(read_kubeconfig(directory.str(), "").error().code == ErrorCode::kUnreadableSource);
    for (const char* text : {"- a\n", "", "a: [", "a: &x [*x]\n", "a: *b\n"}) {
      CAPTURE(text);
      const auto access = read_kubeconfig(directory.write("config", text), "");
      REQUIRE_FALSE(access.ok());
      CHECK(access.error().message.starts_with(directory.str() + "/config"));
    }
  }

  TEST_CASE("a pod finds its server in its environment and its token beside its CA") {
    const testing::TemporaryDirectory directory;
    const std::map<std::string, std::string> environment{{"KUBERNETES_SERVICE_HOST", "fd00::1"},
                                                         {"KUBERNETES_SERVICE_PORT", "443"}};
    const auto without_files = read_service_account(environment, directory.str());
    REQUIRE_FALSE(without_files.ok());
    CHECK(without_files.error().message.find("automountServiceAccountToken") != std::string::npos);
    directory.write("ca.crt", "x");
    directory.write("token", "x");
    const auto access = read_service_account(environment, directory.str());
    REQUIRE_MESSAGE(access.ok(), (access.ok() ? "" : access.error().text()));
    CHECK(access->server == "https://[fd00::1]:443");
    CHECK(access->address.host == "fd00::1");
    CHECK(access->token_file == directory.str() + "/token");
    CHECK(access->certificate_authority.path == directory.str() + "/ca.crt");

    const auto elsewhere = read_service_account({}, directory.str());
    REQUIRE_FALSE(elsewhere.ok());
    CHECK(elsewhere.error().code == ErrorCode::kNotFound);
    CHECK(elsewhere.error().message.find("name a kubeconfig") != std::string::npos);
  }
}

}  // namespace
