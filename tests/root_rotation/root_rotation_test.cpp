// Replicas rotate a root together by one shared record.
#include "osm/certificate/root_rotation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/openssl.hpp"
#include "rotation_rig.hpp"

using namespace osm;
using namespace osm::root_rotation::rig;
using root_rotation::RootRecord;
using root_rotation::RootState;
using std::chrono::hours;
using std::chrono::seconds;

namespace {

// Why a replica with this flag and no CA but its own does not start.
Error refusal_to_start(Mesh& mesh, const TrustDomain& domain) {
  testing::ManualExecutor executor(mesh.clock);
  const auto started = RootRotation::start({.runtime = mesh.runtime(executor),
                                            .spec = mesh.spec,
                                            .record = mesh.record,
                                            .own = mesh.own,
                                            .open = {},
                                            .trust_domain = domain});
  REQUIRE_FALSE(started.ok());
  return started.error();
}

TEST_SUITE("root_rotation::RootRotation") {
  TEST_CASE(
      "replicas follow one record to the next root, each leaf is renewed, the old root ends") {
    Mesh mesh;
    Replica a(mesh, "a"), b(mesh, "b");
    b.leads = false;
    run(mesh, {&a, &b}, 3);
    CHECK(a.manager->trust_bundle_pem() == mesh.own->trust_bundle_pem());

    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a, &b});
    CHECK(mesh.states() == std::map<std::string, RootState>{{kOwnRoot, RootState::kInactive},
                                                            {"next", RootState::kSigning}});
    for (Replica* replica : {&a, &b}) {
      CHECK(replica->leaf()->issuer_id == mesh.cas.at("next")->id());
      CHECK(replica->manager->trust_bundle_pem() == mesh.cas.at("next")->trust_bundle_pem());
    }
  }

  TEST_CASE("the record knows the CAs of the roots that it trusts, and no others") {
    Mesh mesh;
    CHECK(known_ca(mesh.record, kOwnRoot).value().bundle_pem.empty());
    Replica a(mesh, "a");
    const certificate::KnownCa own = known_ca(mesh.record, kOwnRoot).value();
    CHECK(own.bundle_pem == mesh.own->trust_bundle_pem());
    CHECK(own.record == "the record");
    CHECK(known_ca(mesh.record, "next").value().bundle_pem.empty());
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a});
    REQUIRE(mesh.states().at(kOwnRoot) == RootState::kInactive);
    CHECK(known_ca(mesh.record, kOwnRoot).value().bundle_pem.empty());
    CHECK(known_ca(mesh.record, "next").value().bundle_pem ==
          mesh.cas.at("next")->trust_bundle_pem());
    mesh.record.text = "{";
    CHECK(known_ca(mesh.record, kOwnRoot).error().code == ErrorCode::kInvalidSyntax);
  }

  TEST_CASE("a root is a problem from 30 days before its end, and its end is a metric") {
    Mesh mesh;
    Served served;
    Replica a(mesh, "a", &served);
    run(mesh, {&a}, 3);
    const auto problems = [&] { return problems_of(a.rotation->status(), mesh.clock.wall_now()); };
    const WallTime end = mesh.own->not_after();
    const auto gauge = [&](const std::string& root) {
      return mesh.metrics.value("osm_root_not_after_seconds", {{"root", root}});
    };
    CHECK(gauge(kOwnRoot) == std::chrono::duration<double>(end.time_since_epoch()).count());
    CHECK(a.rotation->status().at(0).not_after == end);
    CHECK(a.rotation->status().at(0).fingerprint.size() == 64);
    CHECK(problems().empty());
    CHECK(served.problem_changes == 0);

    mesh.clock.set_wall(end - std::chrono::days(30) - seconds(20));
    run(mesh, {&a}, 2);
    CHECK(problems().empty());
    run(mesh, {&a}, 40);
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].code == ErrorCode::kRootEnding);
    CHECK(problems()[0].text().find("root (own): its CA ends on 20") != std::string::npos);
    CHECK(served.problem_changes == 1);
    mesh.clock.set_wall(end);
    run(mesh, {&a}, 20);
    REQUIRE(problems().size() == 1);
    CHECK(problems()[0].code == ErrorCode::kCertificateExpired);
    CHECK(served.problem_changes == 2);
  }

  TEST_CASE("a root that is no longer trusted has no end") {
    Mesh mesh;
    Replica a(mesh, "a");
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a});
    REQUIRE(mesh.states().at(kOwnRoot) == RootState::kInactive);
    for (const RootStatus& root : a.rotation->status())
      CHECK(root.not_after.has_value() == (root.name == "next"));
    const auto gauge = [&](const std::string& root) {
      return mesh.metrics.value("osm_root_not_after_seconds", {{"root", root}});
    };
    CHECK(std::isinf(gauge(kOwnRoot)));
    CHECK(gauge("next") > 0);
    CHECK_FALSE(std::isinf(gauge("next")));
  }

  TEST_CASE("a replica that does not act on a step holds the next one") {
    Mesh mesh;
    Replica a(mesh, "a"), b(mesh, "b");
    b.leads = false;
    run(mesh, {&a, &b}, 3);
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a});
    CHECK(mesh.states().at("next") == RootState::kValidating);
    bool told = false;
    for (const RootStatus& root : a.rotation->status())
      told = told || root.waiting_for == "waits for replica b";
    CHECK(told);
    CHECK(b.manager->trust_bundle_pem() == mesh.own->trust_bundle_pem());
    run(mesh, {&a, &b});
    CHECK(mesh.states().at("next") == RootState::kSigning);
  }

  TEST_CASE("proxies with another root's certificate hold a draining root and are recalled") {
    Mesh mesh;
    Served served;
    served.proxies = {{"web"}, {{"web", {.leaf = true}}}};
    Replica a(mesh, "a", &served);
    run(mesh, {&a}, 3);
    CHECK(served.told == std::vector<TrustDomains>{kDomain});
    CHECK(served.recalled.empty());

    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a}, 10);
    CHECK(mesh.states() == std::map<std::string, RootState>{{kOwnRoot, RootState::kDraining},
                                                            {"next", RootState::kSigning}});
    served.recalled.clear();
    run(mesh, {&a}, 20);  // the interval is 5 s
    CHECK(served.recalled == std::vector<std::string>(4, a.leaf()->issuer_key_id));
    CHECK(mesh.states().at(kOwnRoot) == RootState::kDraining);

    served.proxies.connected["web"] = {};
    run(mesh, {&a}, 5);
    CHECK(mesh.states().at(kOwnRoot) == RootState::kInactive);
  }

  TEST_CASE("a rotation takes one control plane, and none once it is followed") {
    Mesh mesh;
    Served first, second;
    Replica followed(mesh, "a");
    CHECK(followed.rotation->attach(first).error().code == ErrorCode::kInvalidArgument);
    testing::ManualExecutor executor(mesh.clock);
    const auto fresh = RootRotation::start({.runtime = mesh.runtime(executor),
                                            .spec = mesh.spec,
                                            .record = mesh.record,
                                            .own = mesh.own,
                                            .open = {},
                                            .trust_domain = kDomain})
                           .value();
    CHECK(fresh->attach(first).ok());
    CHECK(fresh->attach(second).error().code == ErrorCode::kInvalidArgument);
  }

  TEST_CASE("a rotation stands to lead from follow() to stop()") {
    Mesh mesh;
    Replica replica(mesh, "a");
    CHECK(replica.board.stands);
    replica.rotation->stop();
    CHECK_FALSE(replica.board.stands);
  }

  TEST_CASE("a single replica rotates without a board and leads without being asked") {
    Mesh mesh;
    testing::ManualExecutor executor(mesh.clock);
    const auto next = new_ca(mesh.clock);
    const auto rotation =
        RootRotation::start(
            {.runtime = mesh.runtime(executor),
             .spec = mesh.spec,
             .record = mesh.record,
             .own = mesh.own,
             .open = [&](const AllowedRoot&) -> Result<std::shared_ptr<certificate::Issuer>> {
               return next;
             },
             .trust_domain = kDomain})
            .value();
    const auto manager = certificate::make_manager(
        {.issuer = rotation->issuer(),
         .runtime = {executor, executor, mesh.clock, mesh.rng, mesh.log, mesh.metrics}});
    rotation->follow({.manager = *manager});
    mesh.wish("next", RootRole::kActive);
    for (int i = 0; i < 30; ++i) {
      executor.run_until_idle();
      mesh.clock.advance(seconds(1));
    }
    CHECK(mesh.states() == std::map<std::string, RootState>{{kOwnRoot, RootState::kInactive},
                                                            {"next", RootState::kSigning}});
    rotation->stop();
  }

  TEST_CASE("a replica that starts in between acts on the record at once") {
    Mesh mesh;
    auto a = std::make_unique<Replica>(mesh, "a");
    Replica b(mesh, "b");
    b.leads = false;
    run(mesh, {a.get(), &b}, 3);
    mesh.wish("next", RootRole::kActive);
    run(mesh, {a.get()});
    REQUIRE(mesh.states().at("next") == RootState::kValidating);
    a = nullptr;
    a = std::make_unique<Replica>(mesh, "a");
    const std::string both = a->manager->trust_bundle_pem();
    CHECK(both.find(mesh.own->trust_bundle_pem()) != std::string::npos);
    CHECK(both.find(mesh.cas.at("next")->trust_bundle_pem()) != std::string::npos);
    run(mesh, {a.get(), &b});
    CHECK(mesh.states().at(kOwnRoot) == RootState::kInactive);
  }

  // Its proxies verify the control plane with what came with their own certificate, which may know
  // no newer root.
  TEST_CASE("a replica that starts while a root drains shows a certificate of that root") {
    Mesh mesh;
    auto a = std::make_unique<Replica>(mesh, "a");
    Replica b(mesh, "b");
    b.leads = false;
    mesh.wish("first", RootRole::kActive);
    run(mesh, {a.get(), &b});
    REQUIRE(mesh.states().at(kOwnRoot) == RootState::kInactive);
    const std::string first = a->leaf()->issuer_key_id;
    mesh.wish("first", RootRole::kInactive);
    mesh.wish("second", RootRole::kActive);
    for (int i = 0; i < 60 && mesh.states()["second"] != RootState::kSigning; ++i)
      run(mesh, {a.get(), &b}, 1);
    REQUIRE(mesh.states().at("first") == RootState::kDraining);
    a = nullptr;
    a = std::make_unique<Replica>(mesh, "a");
    CHECK(a->leaf()->issuer_key_id != first);
    const auto shown = a->manager->issue_certificate(
        {CommonName("osm-controller.osm-system"), SpiffeId("spiffe://cluster.local/osm/controller"),
         certificate::Usage::kController},
        hours(24));
    REQUIRE(shown.ok());
    CHECK((*shown)->issuer_key_id == first);
  }

  TEST_CASE("proxies are recalled when the last certificate was kept for an interval") {
    Mesh mesh;
    Served served;
    served.proxies = {{"web"}, {{"web", {.leaf = true}}}};
    Replica a(mesh, "a"), b(mesh, "b", &served);  // the Secrets are a's to write
    b.leads = false;
    mesh.wish("next", RootRole::kActive);
    for (int i = 0; i < 60 && mesh.states()["next"] != RootState::kSigning; ++i)
      run(mesh, {&a, &b}, 1);
    REQUIRE(mesh.states().at(kOwnRoot) == RootState::kDraining);
    served.recalled.clear();
    for (a.kept_lag = 30; a.kept_lag > 0; --a.kept_lag) run(mesh, {&a, &b}, 1);
    run(mesh, {&a, &b}, 4);  // the interval is 5 s
    CHECK(served.recalled.empty());
    run(mesh, {&a, &b}, 4);
    CHECK(served.recalled.size() == 1);
    SUBCASE("if some cannot be written, the others are recalled later") {
      a.kept_lag = 3;
      run(mesh, {&a, &b}, 18);
      CHECK(served.recalled.size() == 1);
      run(mesh, {&a, &b}, 6);
      CHECK(served.recalled.size() == 2);
    }
    SUBCASE("distrust does not wait") {
      a.kept_lag = 3;
      run(mesh, {&a, &b}, 2);
      REQUIRE(b.rotation->distrust(kOwnRoot, true).ok());
      run(mesh, {&a, &b}, 2);
      CHECK(served.recalled.size() == 2);
    }
  }

  TEST_CASE("a CA that signs is in the metrics") {
    Mesh mesh;
    Replica a(mesh, "a");
    run(mesh, {&a}, 2);
    CHECK(mesh.metrics.value("osm_ca_signs") == 1);
  }

  TEST_CASE("two replicas that both believe to lead take one step, not two") {
    Mesh mesh;
    Replica a(mesh, "a"), b(mesh, "b");
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a, &b});
    CHECK(mesh.states().at("next") == RootState::kSigning);
    CHECK(mesh.states().at(kOwnRoot) == RootState::kInactive);
  }

  TEST_CASE("a replica that cannot make the signing root names the missing object") {
    Mesh mesh;
    mesh.record.text = root_rotation::to_text(
        {{.name = "lost", .state = RootState::kSigning, .bundle_pem = "pem"}});
    const Error why = refusal_to_start(mesh, kDomain);
    CHECK(why.code == ErrorCode::kNotFound);
    CHECK(why.message.find("MeshRootCertificate lost") != std::string::npos);
  }

  TEST_CASE("a root of Vault or cert-manager is trusted once its fingerprint is in the object") {
    for (const auto& provider :
         {decltype(MeshRootCertificate::provider)(VaultProvider{.host = "vault.example"}),
          decltype(MeshRootCertificate::provider)(CertManagerProvider{})}) {
      Mesh mesh(RootRules{.vault_hosts = {"vault.example"}});
      Replica replica(mesh, "a");
      MeshRootCertificate next{.name = "next", .trust_domain = kDomain, .provider = provider};
      const auto waits_for = [&] {
        for (const RootStatus& root : replica.rotation->status())
          if (root.name == "next") return root.waiting_for;
        return std::string();
      };
      const openssl::CleanErrorQueue clean;
      mesh.cas["next"] = new_ca(mesh.clock);
      const auto shown = openssl::parse_certificate(mesh.cas["next"]->trust_bundle_pem()).value();
      const std::string fingerprint = openssl::fingerprint(*shown).value();
      const std::string of_another(64, 'a');
      for (const auto& listed : {std::vector<std::string>{}, {of_another}}) {
        CAPTURE(listed.size());
        next.root_fingerprints = listed;
        mesh.spec.put(next);
        run(mesh, {&replica}, 20);
        CHECK(mesh.states() == std::map<std::string, RootState>{{kOwnRoot, RootState::kSigning},
                                                                {"next", RootState::kInactive}});
        CHECK(replica.rotation->issuer()->trust_bundle_pem() == mesh.own->trust_bundle_pem());
        CHECK(waits_for().find(fingerprint) != std::string::npos);
        CHECK(waits_for().find("spec.rootFingerprints") != std::string::npos);
      }

      next.root_fingerprints.push_back(fingerprint);
      mesh.spec.put(next);
      run(mesh, {&replica}, 20);
      CHECK(mesh.states()["next"] == RootState::kSigning);
    }
  }

  TEST_CASE("an operator ends a stolen root though a silent proxy holds the rotation") {
    Mesh mesh;
    Served served;
    served.proxies = {{"silent", "web"}, {{"silent", {.bundle = true}}, {"web", {}}}};
    Replica replica(mesh, "a", &served);
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&replica}, 20);
    CHECK(mesh.states()["next"] == RootState::kValidating);  // held

    const auto shown = replica.rotation->distrust(kOwnRoot, false);
    REQUIRE(shown.ok());
    CHECK(shown->signs);
    CHECK(shown->proxies == 2);
    CHECK(shown->bundles == 1);
    CHECK(shown->some == std::vector<std::string>{"shop/silent"});
    run(mesh, {&replica}, 5);
    CHECK(mesh.states()["next"] == RootState::kValidating);  // it only showed

    REQUIRE(replica.rotation->distrust(kOwnRoot, true).ok());
    served.recalled.clear();
    run(mesh, {&replica}, 10);
    CHECK(mesh.states()[kOwnRoot] == RootState::kInactive);
    CHECK(mesh.states()["next"] == RootState::kSigning);
    CHECK(replica.manager->trust_bundle_pem() == mesh.cas.at("next")->trust_bundle_pem());
    CHECK(replica.leaf()->issuer_id == mesh.cas.at("next")->id());
    CHECK(served.recalled == std::vector<std::string>{replica.leaf()->issuer_key_id});
    CHECK_FALSE(replica.rotation->distrust("next", true).ok());  // the only one now
  }

  TEST_CASE("a root that no proxy trusts yet is in the trust bundle once distrust makes it sign") {
    Mesh mesh;
    Replica replica(mesh, "a");
    replica.leads = false;  // takes no step, so the next root is not trusted
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&replica}, 20);
    REQUIRE(mesh.states() == std::map<std::string, RootState>{{kOwnRoot, RootState::kSigning}});
    REQUIRE(replica.manager->trust_bundle_pem() == mesh.own->trust_bundle_pem());

    REQUIRE(replica.rotation->distrust(kOwnRoot, true).ok());
    run(mesh, {&replica}, 5);
    CHECK(mesh.states()["next"] == RootState::kSigning);
    CHECK(replica.leaf()->issuer_id == mesh.cas.at("next")->id());
    CHECK(replica.manager->trust_bundle_pem() == mesh.cas.at("next")->trust_bundle_pem());
  }

  TEST_CASE("a root of another trust domain takes the mesh there, and back") {
    const TrustDomain next("new.example");
    const std::vector<TrustDomain> both{kDomain, next};
    Mesh mesh;
    auto a = std::make_unique<Replica>(mesh, "a");
    Replica b(mesh, "b");
    b.leads = false;
    run(mesh, {a.get(), &b}, 3);
    CHECK(a->rotation->trust_domains() == TrustDomains(kDomain));
    CHECK(a->told == std::vector<TrustDomains>{kDomain});

    mesh.wish("next", RootRole::kActive, next);
    run(mesh, {a.get()});  // b does not let the new names in yet
    REQUIRE(mesh.states().at("next") == RootState::kValidating);
    CHECK(a->rotation->trust_domains().signing == kDomain);
    CHECK(a->rotation->trust_domains().controller == kDomain);
    CHECK(a->rotation->trust_domains().accepted == both);
    CHECK(b.rotation->trust_domains() == TrustDomains(kDomain));

    b.deaf = true;  // its certificates keep their names: nothing is taken from them
    run(mesh, {a.get(), &b});
    REQUIRE(mesh.states().at("next") == RootState::kSigning);
    CHECK(mesh.states().at(kOwnRoot) == RootState::kDraining);
    CHECK(a->rotation->trust_domains().signing == next);
    CHECK(a->rotation->trust_domains().controller == kDomain);
    CHECK(a->rotation->trust_domains().accepted == both);
    CHECK(a->leaf()->subject == Replica::subject(next));
    CHECK(a->leaf()->issuer_id == a->manager->issuer_id());
    CHECK(b.leaf()->subject == Replica::subject(kDomain));
    const auto waits = [&](const std::string& root) {
      for (const RootStatus& one : a->rotation->status())
        if (one.name == root) return one.waiting_for;
      return std::string();
    };
    CHECK(waits(kOwnRoot) == "waits for 1 certificates of the control plane");

    SUBCASE("to the end") {}
    SUBCASE("also when a replica starts in between") {
      a = nullptr;
      a = std::make_unique<Replica>(mesh, "a");
      CHECK(a->rotation->trust_domains().signing == next);
      CHECK(a->rotation->trust_domains().accepted == both);
    }
    b.deaf = false;
    run(mesh, {a.get(), &b});
    CHECK(mesh.states().at(kOwnRoot) == RootState::kInactive);
    for (Replica* replica : {a.get(), &b}) {
      CHECK(replica->rotation->trust_domains() == TrustDomains(next));
      CHECK(replica->leaf()->subject == Replica::subject(next));
      CHECK(replica->manager->trust_bundle_pem() == mesh.cas.at("next")->trust_bundle_pem());
      // Names that end are still let through until the other replica has followed, too.
      const TrustDomains closing = replica->told.at(replica->told.size() - 2);
      CHECK(closing.controller == next);
      CHECK(closing.accepted == std::vector<TrustDomain>{next});
      CHECK(closing.allowed == both);
    }

    mesh.wish("next", RootRole::kInactive, next);
    mesh.wish("third", RootRole::kActive, kDomain);
    run(mesh, {a.get(), &b}, 120);
    CHECK(mesh.states().at("third") == RootState::kSigning);
    CHECK(a->rotation->trust_domains() == TrustDomains(kDomain));
  }

  TEST_CASE("a root that names no trust domain is of the mesh's present one") {
    Mesh mesh;
    Replica a(mesh, "a");
    const TrustDomain elsewhere("elsewhere.example");
    mesh.wish("there", RootRole::kActive, elsewhere);
    run(mesh, {&a}, 120);
    REQUIRE(a.rotation->trust_domains() == TrustDomains(elsewhere));
    mesh.wish("there", RootRole::kInactive, elsewhere);
    mesh.wish("next", RootRole::kActive, TrustDomain());
    run(mesh, {&a}, 120);
    CHECK(mesh.states().at("next") == RootState::kSigning);
    CHECK(mesh.states().at("there") == RootState::kInactive);
    CHECK(a.rotation->trust_domains() == TrustDomains(elsewhere));
  }

  TEST_CASE("the same CA under another trust domain gives everything another name") {
    const TrustDomain next("new.example");
    Mesh mesh;
    const certificate::PrivateKey pem = certificate::make_root_pem(mesh.clock).value();
    mesh.own = certificate::make_local_issuer(pem.pem(), kDomain, mesh.clock).value();
    mesh.cas["next"] = certificate::make_local_issuer(pem.pem(), next, mesh.clock).value();
    Replica a(mesh, "a");
    mesh.wish("next", RootRole::kActive, next);
    a.deaf = true;
    run(mesh, {&a});
    CHECK(mesh.states().at(kOwnRoot) == RootState::kDraining);
    a.deaf = false;
    run(mesh, {&a});
    CHECK(mesh.states().at(kOwnRoot) == RootState::kInactive);
    CHECK(a.leaf()->subject == Replica::subject(next));
    CHECK(a.rotation->trust_domains() == TrustDomains(next));
  }

  TEST_CASE("an edit of a trusted root's trust domain changes nothing") {
    Mesh mesh;
    Replica a(mesh, "a");
    mesh.wish("next", RootRole::kActive);
    run(mesh, {&a});
    REQUIRE(mesh.states().at("next") == RootState::kSigning);
    mesh.cas.clear();
    const std::string bundle = a.manager->trust_bundle_pem();
    mesh.wish("next", RootRole::kActive, TrustDomain("new.example"));
    run(mesh, {&a});
    CHECK(a.rotation->trust_domains() == TrustDomains(kDomain));
    CHECK(a.manager->trust_bundle_pem() == bundle);
    bool told = false;
    for (const RootStatus& root : a.rotation->status())
      told = told || root.waiting_for.find("spec.trustDomain back") != std::string::npos;
    CHECK(told);
  }

  TEST_CASE("a root that is recorded without a trust domain is of the mesh's") {
    Mesh mesh;
    { const Replica a(mesh, "a"); }
    const std::string field = ",\"trustDomain\":\"cluster.local\"";
    const auto at = mesh.record.text.find(field);
    REQUIRE(at != std::string::npos);
    mesh.record.text.erase(at, field.size());
    Replica a(mesh, "a");
    CHECK(a.rotation->trust_domains() == TrustDomains(kDomain));
    run(mesh, {&a});
    CHECK(a.rotation->trust_domains() == TrustDomains(kDomain));
  }

  TEST_CASE("a mesh does not start under another trust domain than its own root is recorded with") {
    Mesh mesh;
    { const Replica a(mesh, "a"); }
    const Error why = refusal_to_start(mesh, TrustDomain("new.example"));
    CHECK(why.code == ErrorCode::kInvalidArgument);
    CHECK(why.message.find("cluster.local") != std::string::npos);
  }

  TEST_CASE("the record and a replica's report are read as they were written") {
    const std::vector<RootRecord> records{
        {.name = "a",
         .state = RootState::kDraining,
         .since = WallTime(seconds(5)),
         .followed_at = WallTime(seconds(6)),
         .signed_at = WallTime(seconds(4)),
         .first_seen = WallTime(seconds(3)),
         .bundle_pem = "pem\n\"x\"",
         .trust_domain = TrustDomain("new.example"),
         .latest_not_after = WallTime(seconds(7)),
         .left_behind = "1 proxies (shop/web)"},
        {.name = "b", .state = RootState::kClosing, .trust_domain = TrustDomain("old.example")}};
    const std::set<root_rotation::ProxyNumber> met{1, (1ULL << 44) - 1};
    const std::string text = root_rotation::to_text(records, met);
    CHECK(root_rotation::parse_records(text).value() == records);
    CHECK(root_rotation::parse_met(text) == met);
    const root_rotation::ReplicaView view{
        .follows = "f",
        .proxies = {{1, 0}, {(1ULL << 44) - 1, root_rotation::kConnected}},
        .omitted = 2,
        .lagging = {"shop/web"},
        .own_lag = 4,
        .young = true,
        .latest_not_after = {{"a", WallTime(seconds(7))}}};
    CHECK(root_rotation::parse_view(root_rotation::to_text(view)).value() == view);
    for (const char* broken : {"", "[]", "{", "{\"roots\":[{}]}", "{\"roots\":[{\"name\":\"a\"}]}"})
      CHECK_FALSE(root_rotation::parse_records(broken).ok());
  }

  TEST_CASE("a time in the record that does not fit is the nearest one that does") {
    const auto records = root_rotation::parse_records(
        R"({"roots":[{"name":"a","state":"signing","since":9223372036854775807,)"
        R"("firstSeen":-9223372036854775807}]})");
    REQUIRE(records.ok());
    CHECK(records->front().since > WallTime(std::chrono::hours(24 * 365 * 250)));
    CHECK(records->front().first_seen < WallTime(-std::chrono::hours(24 * 365 * 250)));
  }
}

}  // namespace
