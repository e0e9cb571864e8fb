// DNS names, UUIDs, SPIFFE ids and common names are accepted in their canonical form only.
#include "model/names.hpp"

#include <doctest/doctest.h>

#include <regex>
#include <string>
#include <vector>

#include "base/host_name.hpp"
#include "model/host.hpp"

using namespace osm;
using namespace osm::model;

namespace {

const TrustDomain kDomain("cluster.local");
const std::string kUuid = "6f2c1a9e-0b7d-4c55-8e21-9f3a4d5b6c70";

TEST_SUITE("model::names") {
  TEST_CASE("a DNS label is 1 to 63 lower-case letters, digits and inner dashes") {
    for (const char* good : {"a", "0", "bookstore-v1", "a--b", "9-lives"})
      CHECK(is_dns_label(good));
    CHECK(is_dns_label(std::string(63, 'a')));
    for (const char* bad : {"", "-a", "a-", "A", "a.b", "a_b", "a/b", "a b", "\xc3\xa4", "a\n"})
      CHECK_FALSE(is_dns_label(bad));
    CHECK_FALSE(is_dns_label(std::string(64, 'a')));
    CHECK_FALSE(is_dns_label(std::string_view("a\0b", 3)));
  }

  TEST_CASE("a DNS name is labels joined by single dots, 253 bytes at most") {
    for (const char* good : {"a", "a.b", "cluster.local", "x-1.y-2.z"}) {
      CHECK(is_dns_subdomain(good));
      CHECK(is_dns_name(good));
    }
    for (const char* bad : {"", ".", "a.", ".a", "a..b", "a.-b", "A.b", "a_b", "-"}) {
      CHECK_FALSE(is_dns_subdomain(bad));
      CHECK_FALSE(is_dns_name(bad));
    }
    const std::string label(63, 'a');
    const std::string longest = label + '.' + label + '.' + label + '.' + std::string(61, 'b');
    CHECK(longest.size() == 253);
    CHECK(is_dns_name(longest));
    CHECK_FALSE(is_dns_name(longest + 'b'));
    CHECK_FALSE(is_dns_name(label + 'a'));
  }

  TEST_CASE("a part of an object's name may be longer than a label") {
    CHECK(is_dns_subdomain(std::string(64, 'a')));
    CHECK(is_dns_subdomain(std::string(253, 'a')));
    CHECK(is_dns_subdomain("a." + std::string(100, 'b')));
    CHECK_FALSE(is_dns_subdomain(std::string(254, 'a')));
  }

  TEST_CASE("a DNS name is read in any case, with or without a dot at its end") {
    CHECK(dns_name_of("API.Example.com.") == "api.example.com");
    CHECK(dns_name_of("api") == "api");
    for (const char* bad : {"", ".", "a..", "a b", "a_b", "\xc3\xa4"})
      CHECK_FALSE(dns_name_of(bad).has_value());
    CHECK(host_name_of("API.Example.com.") == "api.example.com");
    CHECK(host_name_of("10.0.0.1.") == "10.0.0.1");
    CHECK(host_name_of("fd00::7") == "fd00::7");
    for (const char* bad : {"", "[fd00::7]", "api:80", "https://api", "a_b"})
      CHECK_FALSE(host_name_of(bad).has_value());
    const auto host = model::host_of("Api.shop.:8080");
    REQUIRE(host);
    CHECK(host->name == "api.shop");
    CHECK(host->port == Port{8080});
    CHECK(model::host_of("10.0.0.1")->port == std::nullopt);
    for (const char* bad : {"api:", "api:0", "api:x", ":80", "[::1]:80"})
      CHECK_FALSE(model::host_of(bad).has_value());
  }

  TEST_CASE("only canonical lower-case UUID text is a UUID") {
    CHECK(is_uuid(kUuid));
    CHECK_FALSE(is_uuid("6F2C1A9E-0B7D-4C55-8E21-9F3A4D5B6C70"));
    CHECK_FALSE(is_uuid(kUuid.substr(1)));
    CHECK_FALSE(is_uuid(kUuid + '0'));
    CHECK_FALSE(is_uuid("6f2c1a9e00b7d-4c55-8e21-9f3a4d5b6c70"));
    CHECK_FALSE(is_uuid("6f2c1a9e-0b7d-4c55-8e21-9f3a4d5b6c7g"));
  }

  TEST_CASE("a proxy's SPIFFE id is read back as it was written") {
    const ProxyIdentity proxy{ProxyId(kUuid), {"bookstore", "bookstore-v1"}};
    const SpiffeId id = proxy_spiffe_id(kDomain, proxy);
    CHECK(id.str() == "spiffe://cluster.local/osm/proxy/" + kUuid + "/bookstore/bookstore-v1");
    const auto parsed = parse_proxy_spiffe_id(kDomain, id.str());
    REQUIRE(parsed.ok());
    CHECK(*parsed == proxy);
    ProxyIdentity pod = proxy;
    pod.kind = WorkloadKind::kPod;
    const SpiffeId pod_id = proxy_spiffe_id(kDomain, pod);
    CHECK(pod_id.str() == "spiffe://cluster.local/osm/pod/" + kUuid + "/bookstore/bookstore-v1");
    CHECK(parse_proxy_spiffe_id(kDomain, pod_id.str()).value() == pod);
  }

  TEST_CASE("the pattern of workloads' DNS names matches no other name of OSM v1.2") {
    const std::regex pattern(service_name_pattern(kDomain));
    const auto matches = [&](const std::string& name) { return std::regex_match(name, pattern); };
    CHECK(matches(service_common_name(kDomain, {"shop", "web-1"}).str()));
    for (const std::string other :
         {"ads.cluster.local", "osm-validator.osm-system.svc", "web.shop.cluster.localhost",
          "web.shop.clusterxlocal", "a.web.shop.cluster.local", "web.shop.cluster.local.evil",
          ".shop.cluster.local", "*.shop.cluster.local", "web.shop.example.org"})
      CHECK_FALSE_MESSAGE(matches(other), other);
    CHECK_FALSE(matches(kUuid + ".sidecar.web.shop.cluster.local"));
  }

  TEST_CASE("only proxies' SPIFFE ids of this trust domain are accepted") {
    const std::string good = "spiffe://cluster.local/osm/proxy/" + kUuid + "/ns/account";
    REQUIRE(parse_proxy_spiffe_id(kDomain, good).ok());
    for (const std::string& bad : std::vector<std::string>{
             std::string(),
             std::string("spiffe://cluster.local/ns/bookstore/sa/bookstore-v1"),
             controller_spiffe_id(kDomain).str(),
             admin_spiffe_id(kDomain).str(),
             "spiffe://other.local/osm/proxy/" + kUuid + "/ns/account",
             "spiffe://cluster.local.evil/osm/proxy/" + kUuid + "/ns/account",
             "spiffe://cluster.local/osm/pod/proxy/" + kUuid + "/ns/account",
             "spiffe://cluster.local/osm/pods/" + kUuid + "/ns/account",
             "xspiffe://cluster.local/osm/proxy/" + kUuid + "/ns/account",
             "SPIFFE://cluster.local/osm/proxy/" + kUuid + "/ns/account",
             "spiffe://cluster.local/osm/proxy/" + kUuid + "/ns",
             "spiffe://cluster.local/osm/proxy/" + kUuid + "/ns/",
             "spiffe://cluster.local/osm/proxy/" + kUuid + "//account",
             "spiffe://cluster.local/osm/proxy/not-a-uuid/ns/account",
             good + "/more",
             good + "?query",
             good + '\0' + "x",
             "spiffe://cluster.local/osm/proxy/" + kUuid + "/n.s/account",
             "spiffe://cluster.local/osm/proxy/" + kUuid + "/ns/../admin",
         }) {
      CAPTURE(bad);
      const auto parsed = parse_proxy_spiffe_id(kDomain, bad);
      REQUIRE_FALSE(parsed.ok());
      CHECK(parsed.error().code == ErrorCode::kWrongCertificateKind);
    }
  }

  TEST_CASE("the control plane's own ids and the common names have their documented forms") {
    CHECK(controller_spiffe_id(kDomain).str() == "spiffe://cluster.local/osm/controller");
    CHECK(admin_spiffe_id(kDomain).str() == "spiffe://cluster.local/osm/admin");
    CHECK(service_common_name(kDomain, {"bookstore", "bookstore-v1"}).str() ==
          "bookstore-v1.bookstore.cluster.local");
    CHECK(proxy_common_name(ProxyId(kUuid), {"bookstore", "bookstore-v1"}).str() ==
          kUuid + ".bookstore-v1.bookstore");
    CHECK(pod_common_name(ProxyId(kUuid), "bookstore").str() == std::string(kUuid) + ".bookstore");
  }

  TEST_CASE("a derived proxy id is UUIDv5 of trust domain, namespace and name, for ever") {
    // Computed by another implementation: python3 -c 'uuid.uuid5(namespace, "cluster.local/...")'.
    CHECK(model::derived_proxy_id(kDomain, {"bookstore", "bookstore-v1"}).str() ==
          "2dfe5765-e646-51b0-929f-d39c2c22e6e3");
    CHECK(model::derived_proxy_id(kDomain, {"bookstore", "bookstore-v2"}).str() ==
          "dc907db6-dd5c-5e44-8127-cfa9b981c97d");
    CHECK(
        model::derived_proxy_id(TrustDomain("other.local"), {"bookstore", "bookstore-v1"}).str() !=
        "2dfe5765-e646-51b0-929f-d39c2c22e6e3");
    CHECK(is_uuid(model::derived_proxy_id(kDomain, {"a", "b"}).str()));
  }
}

}  // namespace
