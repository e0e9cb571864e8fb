// Names of OSM v1.2 are accepted only during a move, and only for their accounts.
#include <algorithm>
#include <regex>
#include <set>

#include "envoy/config/rbac/v3/rbac.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "translate/rbac.hpp"
#include "translate/snapshots.hpp"
#include "translate/tls.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

namespace tls = envoy::extensions::transport_sockets::tls::v3;
namespace rbac = envoy::config::rbac::v3;

using Names = std::set<std::string>;
using San = tls::SubjectAltNameMatcher;

const std::vector<TrustDomain> kDomains{TrustDomain("cluster.local")};
const ServiceIdentity kWeb{"shop", "web"}, kDb{"shop", "db"};

// "URI exact ...", "DNS regex ...": what a peer's certificate must have one of.
template <class Context>
Names sans_of(const google::protobuf::Any& any) {
  Context context;
  REQUIRE(any.UnpackTo(&context));
  Names names;
  for (const auto& san : context.common_tls_context()
                             .combined_validation_context()
                             .default_validation_context()
                             .match_typed_subject_alt_names()) {
    const auto& matcher = san.matcher();
    const std::string how = matcher.has_exact()    ? "exact " + matcher.exact()
                            : matcher.has_prefix() ? "prefix " + matcher.prefix()
                                                   : "regex " + matcher.safe_regex().regex();
    names.insert(San::SanType_Name(san.san_type()) + ' ' + how);
  }
  return names;
}

Names principals_of(const rbac::Policy& policy) {
  Names names;
  for (const rbac::Principal& principal : policy.principals())
    names.insert(principal.authenticated().principal_name().exact());
  return names;
}

// True if the policy admits a certificate with these alternative names, as Envoy decides.
bool admits(const rbac::Principal& principal, const Names& sans) {
  const auto admitted = [&](const rbac::Principal& one) { return admits(one, sans); };
  const auto& all = principal.and_ids().ids();
  const auto& any = principal.or_ids().ids();
  if (principal.has_and_ids()) return std::all_of(all.begin(), all.end(), admitted);
  if (principal.has_or_ids()) return std::any_of(any.begin(), any.end(), admitted);
  if (principal.has_not_id()) return !admits(principal.not_id(), sans);
  const auto& name = principal.authenticated().principal_name();
  return std::any_of(sans.begin(), sans.end(), [&](const std::string& san) {
    if (name.has_exact()) return name.exact() == san;
    if (name.has_prefix()) return san.starts_with(name.prefix());
    return std::regex_match(san, std::regex(name.safe_regex().regex()));
  });
}

bool admits(const rbac::RBAC& rules, const Names& sans) {
  for (const auto& [target, policy] : rules.policies())
    for (const rbac::Principal& principal : policy.principals())
      if (admits(principal, sans)) return true;
  return false;
}

const std::string kUri = "spiffe://cluster.local/ns/shop/sa/web", kDns = "web.shop.cluster.local";

}  // namespace

TEST_SUITE("translate::PeerNames") {
  using translate::PeerNames;

  TEST_CASE("a server is known by its URI alone unless names of OSM v1.2 are accepted") {
    const auto sans = [](bool osm_v1, const std::vector<ServiceIdentity>& accounts) {
      return sans_of<tls::UpstreamTlsContext>(translate::upstream_tls(
          PeerNames{kDomains, osm_v1}, {}, "web.shop.svc.cluster.local", accounts));
    };
    CHECK(sans(false, {kWeb}) == Names{"URI exact " + kUri});
    CHECK(sans(true, {kWeb}) == Names{"URI exact " + kUri, "DNS exact " + kDns});
    // A service that nobody serves pins an identity that nobody has, in both.
    CHECK(sans(true, {}) == sans(false, {}));
    CHECK(sans(true, {}).size() == 1);
  }

  TEST_CASE("a server takes every workload's certificate, and no other one of OSM v1.2") {
    const auto sans = [](bool osm_v1) {
      return sans_of<tls::DownstreamTlsContext>(
          translate::downstream_tls(PeerNames{kDomains, osm_v1}, {}));
    };
    CHECK(sans(false) == Names{"URI prefix spiffe://cluster.local/ns/"});
    CHECK(sans(true) == Names{"URI prefix spiffe://cluster.local/ns/",
                              "DNS regex " + model::service_name_pattern(kDomains.front())});
  }

  TEST_CASE("a grant names an account by its URI, and by its name in OSM v1.2 while that counts") {
    translate::Authorization authorization{.names = {kDomains},
                                           .grants = {{"shop/access", {kWeb}, {}}}};
    const auto granted = [&] {
      return principals_of(translate::rbac_rules(authorization).policies().at("shop/access"));
    };
    CHECK(granted() == Names{kUri});
    authorization.names.osm_v1 = true;
    CHECK(granted() == Names{kUri, kDns});
    const auto denied = translate::rbac_denials(authorization.names, {kWeb});
    CHECK(principals_of(denied.policies().at("denied")) == Names{kUri, kDns});
  }

  TEST_CASE("a name of OSM v1.2 admits exactly its account") {
    translate::Authorization authorization{.names = PeerNames{kDomains, true},
                                           .grants = {{"shop/access", {kWeb}, {}}}};
    const rbac::RBAC rules = translate::rbac_rules(authorization);
    CHECK(admits(rules, {kDns}));
    CHECK(admits(rules, {kUri, kDns}));
    for (const std::string other :
         {"db.shop.cluster.local", "web.other.cluster.local", "web.shop.example.org",
          "ads.cluster.local", "web.shop.cluster.local.evil", "x.web.shop.cluster.local",
          "6f2c1a9e-0b7d-4c55-8e21-9f3a4d5b6c70.sidecar.web.shop.cluster.local"})
      CHECK_FALSE_MESSAGE(admits(rules, {other}), other);
    authorization.names.osm_v1 = false;
    CHECK_FALSE(admits(translate::rbac_rules(authorization), {kDns}));
  }

  TEST_CASE("in permissive mode a denied account is refused under both of its names") {
    translate::Authorization authorization{.names = PeerNames{kDomains, true}, .permissive = true};
    const auto admitted = [&](const Names& sans) {
      return admits(translate::rbac_rules(authorization), sans);
    };
    CHECK(admitted({kDns}));
    CHECK(admitted({kUri}));
    CHECK_FALSE(admitted({"ads.cluster.local"}));
    CHECK_FALSE(admitted({"6f2c1a9e-0b7d-4c55-8e21-9f3a4d5b6c70.sidecar.web.shop.cluster.local"}));
    authorization.denied = {kWeb};
    CHECK_FALSE(admitted({kDns}));
    CHECK_FALSE(admitted({kUri}));
    CHECK_FALSE(admitted({kUri, kDns}));
    CHECK(admitted({"db.shop.cluster.local"}));
    authorization.names.osm_v1 = false;
    CHECK_FALSE(admitted({"db.shop.cluster.local"}));
    CHECK(admitted({"spiffe://cluster.local/ns/shop/sa/db"}));
  }
}
