// A proxy is identified by its certificate, in any accepted trust domain.
#include "ads/peer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ads/mesh_fixture.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::ads;
using namespace osm::ads_test;

namespace {

struct Fixture {
  osm::testing::ManualClock clock;
  TestCa ca{clock};

  Result<Peer> identify(const std::vector<TrustDomain>& accepted,
                        const std::vector<std::string>& uris) {
    const CertificatePtr any = ca.proxy(kClientId, translate_test::kClient);
    return identify_peer(accepted, {uris, "name", any->chain_pem, "ipv4:10.0.0.7:1"});
  }
};

const std::string kPath = "/osm/proxy/" + kClientId.str() + "/client/client";
const TrustDomain kNewDomain("new.example");

}  // namespace

TEST_SUITE("ads::identify_peer") {
  TEST_CASE_FIXTURE(Fixture, "a proxy of any accepted trust domain is one, under the same id") {
    for (const std::string domain : {"cluster.local", "new.example"}) {
      const auto peer = identify({kDomain, kNewDomain}, {"spiffe://" + domain + kPath});
      REQUIRE(peer.ok());
      CHECK(peer->identity.id == kClientId);
      CHECK(peer->trust_domain == TrustDomain(domain));
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a SPIFFE id of another trust domain or form is no proxy's") {
    for (const std::string& uri : {
             "spiffe://old.example" + kPath,
             "spiffe://new.example.evil" + kPath,
             "spiffe://new.example@evil" + kPath,
             "spiffe://NEW.example" + kPath,
             "https://new.example" + kPath,
             "spiffe://new.example" + kPath + "/more",
             std::string("spiffe://new.example/ns/client/sa/client"),
             std::string("spiffe://new.example/osm/controller"),
             std::string("spiffe://new.example"),
             "spiffe://" + kPath,
             kPath,
             std::string(),
         }) {
      CAPTURE(uri);
      const auto peer = identify({kDomain, kNewDomain}, {uri});
      REQUIRE_FALSE(peer.ok());
      CHECK(peer.error().code == ErrorCode::kWrongCertificateKind);
      CHECK(identify({}, {uri}).ok() == false);
    }
  }

  TEST_CASE_FIXTURE(Fixture, "a certificate without exactly one URI SAN is no proxy's") {
    const std::string own = "spiffe://cluster.local" + kPath;
    const std::string other =
        "spiffe://cluster.local/osm/proxy/" + kServerId.str() + "/server/server";
    const std::string workload = "spiffe://cluster.local/ns/client/sa/client";
    REQUIRE(identify({kDomain}, {own}).ok());
    for (const std::vector<std::string>& uris : std::vector<std::vector<std::string>>{
             {}, {own, own}, {own, other}, {own, workload}, {workload, own}, {own, other, own}}) {
      CAPTURE(uris.size());
      const auto peer = identify({kDomain}, uris);
      REQUIRE_FALSE(peer.ok());
      CHECK(peer.error().code == ErrorCode::kWrongCertificateKind);
      CHECK(peer.error().message.find(std::to_string(uris.size()) + " URI SANs") !=
            std::string::npos);
    }
  }
}
