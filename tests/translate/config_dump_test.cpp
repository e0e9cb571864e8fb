// The config dump tells acknowledged, pending and refused resources apart and shows no key.
#include "translate/config_dump.hpp"

#include "certificate/issuance.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/runtime/system.hpp"
#include "translate/real_envoy.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

const WallTime kThen{std::chrono::seconds(1700000000)};

translate::DumpedResource dumped(XdsType type, const std::string& name, std::string any,
                                 bool acknowledged, std::string nack = "") {
  return {type, name, "v1", std::move(any), kThen, acknowledged, std::move(nack)};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_SUITE("translate::config_dump") {
  TEST_CASE("acknowledged, pending and refused resources are distinct") {
    const auto mesh = worked_example();
    const auto name = std::string("server/server|14001");
    const auto cluster = mesh.encoded(client_class(), XdsType::kCluster, name)->any;
    const auto listener =
        mesh.encoded(client_class(), XdsType::kListener, "outbound_10.96.10.7_80")->any;
    const auto text = translate::config_dump_json(
        {dumped(XdsType::kCluster, name, cluster, true),
         dumped(XdsType::kListener, "outbound_10.96.10.7_80", listener, true),
         dumped(XdsType::kListener, "outbound_10.96.10.7_80", listener, false, "no \"good\"\n")});
    CHECK(text.starts_with(
        R"({"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.ClustersConfigDump")"));
    CHECK(contains(text, R"("dynamic_active_clusters":[{"version_info":"v1","cluster":{"@type")"));
    CHECK(contains(text, R"("last_updated":"2023-11-14T22:13:20Z")"));
    CHECK(contains(text, R"("client_status":"ACKED")"));
    CHECK(contains(text, R"("active_state":)"));
    CHECK(contains(text, R"("warming_state":)"));
    CHECK(contains(text, R"("details":"no \"good\"\n")"));
    CHECK(contains(text, R"("client_status":"NACKED")"));
  }

  TEST_CASE("equal resources give equal text in whatever order they come") {
    const auto mesh = worked_example();
    std::vector<translate::DumpedResource> all;
    for (const XdsType type : kXdsTypes)
      for (const auto& input : mesh.inputs(server_class(), type))
        all.push_back(dumped(type, input->name(), input->encode().any, true));
    const auto text = translate::config_dump_json(all);
    std::reverse(all.begin(), all.end());
    CHECK(translate::config_dump_json(all) == text);
  }

  TEST_CASE("a certificate appears by its fingerprint and its key not at all") {
    TemporaryDirectory directory;
    SystemClock clock;
    auto ca = certificate::load_or_create_directory_ca(
        {directory.file("ca"), TrustDomain("cluster.local"), clock});
    REQUIRE(ca.ok());
    const certificate::Subject subject{CommonName("x"),
                                       spiffe_id(TrustDomain("cluster.local"), kClient),
                                       certificate::Usage::kWorkload};
    auto issued = certificate::issue(**ca, subject, std::chrono::hours(1), {}, clock);
    REQUIRE(issued.ok());
    const certificate::Certificate& own = *issued;
    std::vector<translate::DumpedResource> secrets;
    for (const auto& secret : secrets_of(own, (*ca)->trust_bundle_pem())) {
      secrets.push_back(dumped(XdsType::kSecret, secret.name, secret.any, true));
      secrets.push_back(dumped(XdsType::kSecret, secret.name, secret.any, false, "refused"));
    }
    const auto text = translate::config_dump_json(secrets);
    CHECK(contains(text, "sha256:" + own.fingerprint));
    CHECK(contains(text, "\"dynamic_active_secrets\""));
    CHECK(contains(text, "\"dynamic_warming_secrets\""));
    CHECK_FALSE(contains(text, "PRIVATE"));
    CHECK_FALSE(contains(text, "BEGIN"));
    // Nor any line of the key without its armour.
    std::istringstream lines(own.private_key.pem());
    for (std::string line; std::getline(lines, line);)
      if (line.size() > 8) CHECK_FALSE(contains(text, line.substr(0, 16)));
  }

  TEST_CASE("bytes that are no resource are listed without content") {
    const auto text = translate::config_dump_json(
        {dumped(XdsType::kSecret, "service-cert", "garbage-with-a-secret", true),
         dumped(XdsType::kCluster, "c", "garbage-with-a-secret", true)});
    CHECK(contains(text, "service-cert"));
    CHECK_FALSE(contains(text, "garbage"));
  }
}
