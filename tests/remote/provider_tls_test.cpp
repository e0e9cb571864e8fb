// Nothing is listed without both certificates, and files are read again.
#include <doctest/doctest.h>

#include "net/tls_fixture.hpp"
#include "remote/remote_rig.hpp"

using namespace osm;
using namespace osm::remote_test;

namespace {

// A provider process that asks for a certificate of `clients`.
std::shared_ptr<grpc::ServerCredentials> serving(const certificate::CertificatePtr& own,
                                                 const net::TestCa& clients) {
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = clients.root_pem();
  tls.pem_key_cert_pairs.push_back({own->private_key.pem(), own->chain_pem});
  return grpc::SslServerCredentials(tls);
}

struct World : Rig {
  net::TestCa ca, other;

  void use(const net::TestCa& trusted, const net::TestCa& own) {
    const auto mine = own.issue("DNS:controller.test");
    options.ca_file = folder.write("ca.pem", trusted.root_pem());
    options.certificate_file = folder.write("own.pem", mine->chain_pem);
    options.key_file = folder.write("own-key.pem", mine->private_key.pem());
  }
  void listen(ProviderServer& server) {
    server.set(kBooks, {{endpoint_at(1)}});
    server.start();
    options.address = "127.0.0.1:" + std::to_string(server.port());
  }
};

}  // namespace

TEST_SUITE("remote::Provider over TLS") {
  TEST_CASE("both sides show a certificate, and the provider's has its name") {
    World world;
    ProviderServer server("127.0.0.1:0",
                          serving(world.ca.issue("DNS:provider.test,IP:127.0.0.1"), world.ca));
    world.listen(server);
    world.use(world.ca, world.ca);
    SUBCASE("the host of the address") {}
    SUBCASE("the name that the operator gave") { world.options.server_name = "provider.test"; }
    auto& provider = world.start();
    REQUIRE_MESSAGE(world.wait_until_healthy(), world.log.all_text());
    CHECK(provider.list_endpoints_for_service(kBooks) == std::vector{endpoint_at(1)});
  }

  TEST_CASE(
      "no list comes from a process that is not the provider, nor to one that is not the "
      "controller") {
    World world;
    auto credentials = serving(world.ca.issue("DNS:provider.test,IP:127.0.0.1"), world.ca);
    world.use(world.ca, world.ca);
    SUBCASE("a certificate of another CA") {
      credentials = serving(world.other.issue("IP:127.0.0.1"), world.ca);
    }
    SUBCASE("a certificate of another name") { world.options.server_name = "else.test"; }
    SUBCASE("no TLS") { credentials = grpc::InsecureServerCredentials(); }
    SUBCASE("the controller has a certificate of another CA") { world.use(world.ca, world.other); }
    ProviderServer server("127.0.0.1:0", credentials);
    world.listen(server);
    auto& provider = world.start();
    CHECK(world.reports("it cannot be asked"));
    world.executor.run_for(1min);
    CHECK_FALSE(provider.has_synced());
    CHECK_FALSE(server.request());
    CHECK(world.log.all_text().find("PRIVATE") == std::string::npos);
  }

  TEST_CASE("a file that cannot be read is named, and read again") {
    World world;
    ProviderServer server("127.0.0.1:0", serving(world.ca.issue("IP:127.0.0.1"), world.ca));
    world.listen(server);
    world.use(world.ca, world.ca);
    const std::string key = world.folder.read("own-key.pem");
    std::filesystem::remove(world.options.key_file);
    world.start();
    CHECK(world.reports(world.options.key_file));
    CHECK(world.problem(world.options.key_file).find("unreadable-source") != std::string::npos);
    world.folder.write("own-key.pem", key);
    CHECK(world.wait_until_healthy());
  }
}
