// A real Envoy accepts the bootstrap of a machine, and unsafe values are refused.
#include "osm/inject/vm_bootstrap.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "inject/golden.hpp"
#include "inject/run.hpp"
#include "lib/places.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

const std::string kUuid = "6f2c1f0e-5c6b-4d6e-9f55-0d6d8a3a9c11";

certificate::Certificate proxy_certificate(const std::string& common_name) {
  certificate::Certificate certificate;
  certificate.subject.common_name = CommonName{common_name};
  certificate.chain_pem = "-----the chain-----\n";
  certificate.private_key = certificate::PrivateKey{"-----the key-----\n"};
  return certificate;
}

Service service(const std::string& ns, const std::string& name, const std::string& cluster_ip) {
  Service result;
  result.name = {ns, name};
  result.headless = cluster_ip.empty();
  result.cluster_ip = cluster_ip;
  return result;
}

struct Case {
  certificate::Certificate certificate = proxy_certificate(kUuid + ".bookstore.bookstore");
  std::string trust_bundle_pem = "-----the roots-----\n";
  VmBootstrapInput input{.workload = {"bookstore", "bookstore-v1"},
                         .account = {"bookstore", "bookstore"},
                         .trust_domain = TrustDomain{"cluster.local"},
                         .controller = "10.0.0.1:15128",
                         .directory = "/etc/osm",
                         .certificate = certificate,
                         .trust_bundle_pem = trust_bundle_pem,
                         .services = {},
                         .interception = {}};

  std::string content(const std::string& name) const {
    const auto files = vm_bootstrap(input);
    REQUIRE_MESSAGE(files.ok(), files.error().message);
    const auto file = std::find_if(files->begin(), files->end(),
                                   [&](const BootstrapFile& f) { return f.name == name; });
    REQUIRE(file != files->end());
    return file->content;
  }
  std::string failure() const {
    const auto files = vm_bootstrap(input);
    REQUIRE_FALSE(files.ok());
    CHECK(files.error().code == ErrorCode::kInvalidArgument);
    return files.error().message;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Envoy's own judgement of every text, with the files it names in place.
void check_envoy_accepts(Case& bootstrap) {
  const testing::TemporaryDirectory directory;
  bootstrap.input.directory = directory.str();
  const auto files = vm_bootstrap(bootstrap.input);
  REQUIRE_MESSAGE(files.ok(), files.error().message);
  for (const BootstrapFile& file : *files) directory.write(file.name, file.content);
  // Envoy reads the key material too; the text above is not any.
  const auto openssl = testing::run(
      "cd '" + directory.str() +
      "' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 "
      "-subj /CN=test -keyout sds_key.pem -out sds_cert.pem && cp sds_cert.pem cacert.pem");
  REQUIRE_MESSAGE(openssl.status == 0, openssl.output);
  const auto envoy = testing::run(testing::envoy() + " -c '" + directory.str() +
                                  "/bootstrap.yaml' --mode validate --disable-hot-restart "
                                  "--drain-time-s 30 --drain-strategy immediate");
  CHECK_MESSAGE(envoy.status == 0, envoy.output);
  CHECK_MESSAGE(!contains(envoy.output, "][warning]"), envoy.output);
  CHECK_MESSAGE(!contains(envoy.output, "eprecat"), envoy.output);
}

}  // namespace

TEST_SUITE("inject::vm_bootstrap") {
  TEST_CASE("the bootstrap of a machine is the text that is agreed on") {
    testing::check_golden("bootstrap.yaml", Case{}.content("bootstrap.yaml"));
  }

  TEST_CASE("Envoy accepts the bootstrap without a warning, by address and by name") {
    for (const char* controller :
         {"10.0.0.1:15128", "[fd00::1]:15128", "osm-controller.osm-system.svc:15128"}) {
      CAPTURE(controller);
      Case bootstrap;
      bootstrap.input.controller = controller;
      check_envoy_accepts(bootstrap);
    }
  }

  TEST_CASE("Envoy accepts a directory with a space and the longest names") {
    Case bootstrap;
    const std::string longest(63, 'n');
    bootstrap.certificate.subject.common_name = CommonName{kUuid + "." + longest + "." + longest};
    bootstrap.input.workload = {longest, longest};
    bootstrap.input.account = {longest, longest};
    check_envoy_accepts(bootstrap);
    bootstrap.input.directory = "/etc/osm mesh";
    CHECK(contains(bootstrap.content("bootstrap.yaml"), "envoy -c '/etc/osm mesh/bootstrap.yaml'"));
  }

  TEST_CASE("the node is the certificate's common name and the cluster the account") {
    const std::string yaml = Case{}.content("bootstrap.yaml");
    CHECK(contains(yaml, "\nnode:\n  id: " + kUuid + ".bookstore.bookstore\n"));
    CHECK(contains(yaml, "\n  cluster: \"bookstore.bookstore\"\n"));
  }

  TEST_CASE("the controller's identity is pinned exactly, in its own trust domain") {
    Case bootstrap;
    bootstrap.input.trust_domain = TrustDomain{"example.org"};
    CHECK(contains(bootstrap.content("bootstrap.yaml"),
                   "- san_type: URI\n"
                   "                matcher: {exact: \"spiffe://example.org/osm/controller\"}"));
  }

  TEST_CASE("while the trust domain changes, every name that the controller may have is taken") {
    Case bootstrap;
    TrustDomains& domains = bootstrap.input.trust_domain;
    domains.signing = TrustDomain("new.example");
    domains.controller = TrustDomain("example.org");
    domains.accepted = {TrustDomain("example.org"), TrustDomain("new.example")};
    const std::string yaml = bootstrap.content("bootstrap.yaml");
    CHECK(contains(yaml, "matcher: {exact: \"spiffe://example.org/osm/controller\"}"));
    CHECK_FALSE(contains(yaml, "new.example"));
    const std::string names = bootstrap.content("validation_context_sds_secret.yaml");
    CHECK(contains(names,
                   "{san_type: URI, matcher: {exact: \"spiffe://example.org/osm/controller\"}}"));
    CHECK(contains(names,
                   "{san_type: URI, matcher: {exact: \"spiffe://new.example/osm/controller\"}}"));
    check_envoy_accepts(bootstrap);
    domains.accepted.emplace_back("no\nname");
    CHECK(contains(bootstrap.failure(), "trust domain"));
  }

  TEST_CASE("the admin interface listens on loopback alone") {
    CHECK(contains(Case{}.content("bootstrap.yaml"),
                   "admin:\n  address: {socket_address: {address: 127.0.0.1, port_value: 15000}}"));
  }

  TEST_CASE("the statistics for Prometheus have a port of their own, on every address") {
    const std::string yaml = Case{}.content("bootstrap.yaml");
    CHECK(contains(yaml,
                   "- name: inbound-prometheus-listener\n"
                   "    address: {socket_address: {address: 0.0.0.0, port_value: 15010}}"));
    CHECK(contains(yaml, "path: /stats/prometheus\n"));
    CHECK(contains(yaml,
                   "envoy.resource_limits.listener.inbound-prometheus-listener.connection_limit"));
  }

  TEST_CASE(
      "no file holds the key, which its maker writes, and the proxy's files are for its user "
      "alone") {
    const auto files = vm_bootstrap(Case{}.input);
    REQUIRE(files.ok());
    for (const BootstrapFile& file : *files) {
      CAPTURE(file.name);
      CHECK_FALSE(contains(file.content, "the key"));
      CHECK(file.name != kProxyKeyFile);
      if (file.proxys) CHECK(file.mode == 0600);
    }
  }

  TEST_CASE("the proxy's user cannot change files that root runs or resolves names by") {
    const auto files = vm_bootstrap(Case{}.input);
    REQUIRE(files.ok());
    for (const BootstrapFile& file : *files) {
      const bool roots = file.name == "hosts" || file.name == "intercept.sh";
      CHECK_MESSAGE(file.proxys == !roots, file.name);
    }
  }

  TEST_CASE("hosts names every service by its cluster IP, and the own namespace's by short name") {
    Case bootstrap;
    bootstrap.input.services = {service("web", "front", "10.96.0.2"), service("web", "peers", ""),
                                service("bookstore", "books", "10.96.0.1")};
    const std::string hosts = bootstrap.content("hosts");
    CHECK(contains(hosts,
                   "\n10.96.0.1 books books.bookstore books.bookstore.svc "
                   "books.bookstore.svc.cluster.local\n"
                   "10.96.0.2 front.web front.web.svc front.web.svc.cluster.local\n"));
    CHECK_FALSE(contains(hosts, "peers"));
    CHECK(contains(hosts, "127.0.0.1 localhost\n"));
  }

  TEST_CASE("full names in hosts end with the domain of the cluster") {
    Case bootstrap;
    bootstrap.input.services = {service("web", "front", "10.96.0.2")};
    bootstrap.input.cluster_domain = "k8s.corp.example";
    CHECK(contains(bootstrap.content("hosts"),
                   "\n10.96.0.2 front.web front.web.svc front.web.svc.k8s.corp.example\n"));
    bootstrap.input.cluster_domain = "corp\n192.0.2.1 registry";
    CHECK(contains(bootstrap.failure(), "cluster_domain"));
  }

  TEST_CASE("the controller and the mesh's IPv6 services reach the interception") {
    Case bootstrap;
    bootstrap.input.services = {service("web", "front", "fd00:96::2")};
    const std::string script = bootstrap.content("intercept.sh");
    CHECK(contains(script, "-d 10.0.0.1/32 -p tcp --dport 15128 -m owner --uid-owner 1500"));
    CHECK(contains(script, "-A OSM_PROXY_OUTBOUND -d fd00:96::2 -p tcp -j REJECT"));
  }

  TEST_CASE("the controller's name is read in any case, with a dot at its end") {
    Case bootstrap;
    bootstrap.input.controller = "OSM.Example.com.:15128";
    const std::string yaml = bootstrap.content("bootstrap.yaml");
    bootstrap.input.controller = "osm.example.com:15128";
    CHECK(yaml == bootstrap.content("bootstrap.yaml"));
    CHECK(contains(yaml, "osm.example.com"));
  }

  TEST_CASE("a controller that no machine can dial is refused") {
    for (const char* controller : {"0.0.0.0:15128", "[::]:15128"}) {
      Case bootstrap;
      bootstrap.input.controller = controller;
      CHECK(contains(bootstrap.failure(), "is where a server listens"));
    }
  }

  TEST_CASE("a controller that is not HOST:PORT is refused by name and value") {
    using namespace std::string_literals;
    for (const std::string& controller :
         {""s, "10.0.0.1"s, "10.0.0.1:"s, "10.0.0.1:0"s, "10.0.0.1:70000"s, "10.0.0.1:15128x"s,
          ":15128"s, "fd00::1:15128"s, "[fd00::g]:1"s, "a b:15128"s, "evil\"}:1"s, "host\nname:1"s,
          "10.0.0.1\0\nnode: {}:1"s}) {
      CAPTURE(controller);
      Case bootstrap;
      bootstrap.input.controller = controller;
      CHECK(contains(bootstrap.failure(), "controller: '"));
    }
  }

  TEST_CASE("a directory that is relative or could leave its quotes is refused") {
    for (const char* directory :
         {"", "etc/osm", "/etc/o'sm", "/etc/o\"sm", "/etc\n/osm", "/a\\b"}) {
      CAPTURE(directory);
      Case bootstrap;
      bootstrap.input.directory = directory;
      CHECK(contains(bootstrap.failure(), "directory: "));
    }
  }

  TEST_CASE("names that could not be Kubernetes' are refused") {
    Case bootstrap;
    bootstrap.input.account.name = "book\nstore";
    CHECK(contains(bootstrap.failure(), "account.name: "));
    Case other;
    other.certificate.subject.common_name = CommonName{"a: b"};
    CHECK(contains(other.failure(), "certificate.common_name: "));
  }

  TEST_CASE("a Service that could add lines to hosts is refused") {
    for (const auto& [ns, name, address] :
         {std::tuple{"bookstore", "bookstore", "10.96.0.1 google.com\n10.96.0.2"},
          std::tuple{"bookstore", "book\nstore", "10.96.0.1"},
          std::tuple{"", "bookstore", "10.96.0.1"}}) {
      Case bootstrap;
      bootstrap.input.services = {service(ns, name, address)};
      CHECK(contains(bootstrap.failure(), "services: '"));
    }
  }

  TEST_CASE("a certificate without its parts is refused, and needs no key") {
    Case keyless;
    const std::string with_key = keyless.content("bootstrap.yaml");
    keyless.certificate.private_key = certificate::PrivateKey{};
    CHECK(keyless.content("bootstrap.yaml") == with_key);
    Case chainless;
    chainless.certificate.chain_pem.clear();
    CHECK(chainless.failure() == "certificate: has no chain");
    Case rootless;
    rootless.trust_bundle_pem.clear();
    CHECK(rootless.failure() == "trust bundle: is empty");
  }
}
