// CertificateRequests are created, awaited and deleted, and denials and deadlines are reported.
#include <doctest/doctest.h>

#include "cert_manager/fake_cert_manager.hpp"

using namespace osm;

namespace {

using namespace std::chrono_literals;
using cert_manager_test::Authority;
using cert_manager_test::condition;
using cert_manager_test::FakeCertManager;
using cert_manager_test::kRequests;
namespace json = boost::json;

bool contains(const std::string& text, std::string_view part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

// An issuer that was made while all was well, and a cert-manager that from then on answers
// `status`.
struct Answered {
  explicit Answered(json::object status) {
    issuer = fake.made();
    fake.waited = 0s;
    fake.act = [status](const json::object&) { return status; };
  }
  Error refused() {
    const auto answer = issuer->sign(fake.request());
    REQUIRE_FALSE(answer.ok());
    CHECK(fake.requests().empty());  // deleted all the same
    return answer.error();
  }

  FakeCertManager fake;
  std::unique_ptr<certificate::Issuer> issuer;
};

TEST_SUITE("cert_manager::Issuer") {
  TEST_CASE("a request equals the signed content and is deleted after the answer") {
    FakeCertManager fake;
    const auto issuer =
        fake.make({.name = "osm-ca", .kind = "ClusterIssuer", .group = "example.io"});
    REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
    const auto request = fake.request(1h);
    const auto chain = (*issuer)->sign(request);
    REQUIRE_MESSAGE(chain.ok(), chain.error().text());
    CHECK(certificate::check_answer({request.subject, request.request_pem, *chain,
                                     (*issuer)->trust_bundle_pem(), request.validity},
                                    fake.clock)
              .ok());
    CHECK(fake.requests().empty());

    REQUIRE(fake.seen.size() == 2);  // the first was to learn which CA it is
    const json::object& asked = fake.seen.back();
    const std::string name(asked.at("metadata").at("name").as_string());
    CHECK(name.starts_with("osm-"));
    CHECK(asked.at("metadata").at("name") != fake.seen.front().at("metadata").at("name"));
    CHECK(asked.at("metadata").at("namespace") == "osm-system");
    const json::object& spec = asked.at("spec").as_object();
    CHECK(spec.at("request") == json::value(base64(request.request_pem)));
    CHECK(spec.at("issuerRef") ==
          json::object{{"name", "osm-ca"}, {"kind", "ClusterIssuer"}, {"group", "example.io"}});
    CHECK(spec.at("duration") == "3600s");
    CHECK(spec.at("isCA") == false);
    CHECK(spec.at("usages") ==
          json::array{"digital signature", "key encipherment", "server auth", "client auth"});
    CHECK(json::serialize(asked).find("PRIVATE KEY") == std::string::npos);
  }

  TEST_CASE("uses are those of the subject") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    const auto last_uses = [&](certificate::Usage usage) {
      fake.subject.usage = usage;
      REQUIRE(issuer->sign(fake.request()).ok());
      const json::value& all = fake.seen.back().at("spec").at("usages");
      return json::array(all.as_array().begin() + 2, all.as_array().end());
    };
    CHECK(last_uses(certificate::Usage::kProxy) == json::array{"client auth"});
    CHECK(last_uses(certificate::Usage::kController) == json::array{"server auth"});
  }

  TEST_CASE("the signing CA is known before the first request") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    CHECK(issuer->trust_bundle_pem() == fake.authority.root_pem());
    CHECK(issuer->id().starts_with("cert-manager:"));
    CHECK(issuer->id().size() == std::string("cert-manager:").size() + 64);
    CHECK(issuer->not_after() > fake.clock.wall_now() + 24h * 364);
    CHECK(issuer->not_after() < fake.clock.wall_now() + 24h * 366);
    CHECK(fake.made()->id() == issuer->id());  // as another replica sees it
  }

  TEST_CASE("an answer that takes its time is waited for") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    fake.waited = 0s;
    fake.act = [&](const json::object& request) -> std::optional<json::object> {
      if (fake.waited < 30s) return std::nullopt;
      return fake.issued(request, fake.authority);
    };
    CHECK(issuer->sign(fake.request()).ok());
    CHECK(fake.waited >= 30s);
    CHECK(fake.waited < 32s);
    // 50 ms, 100 ms, ... then once a second: no hammering.
    CHECK(fake.seen.size() < 40);
  }

  TEST_CASE("an unapproved request fails after a minute with the reason") {
    Answered late(FakeCertManager::with(condition("Ready", "False", "Pending", "")));
    late.fake.act = [](const json::object&) { return std::nullopt; };
    const Error error = late.refused();
    CHECK(error.code == ErrorCode::kUnavailable);
    CHECK(contains(error.message, "Issuer osm-system/osm-ca did not answer"));
    CHECK(contains(error.message, "within 60 s"));
    CHECK(contains(error.message, "it is not approved"));
    CHECK(late.fake.waited == 60s);
  }

  TEST_CASE("an issuer that is not there is late in cert-manager's words") {
    Answered late(FakeCertManager::with(
        condition("Ready", "False", "Pending", "Referenced \"Issuer\" not found")));
    const Error error = late.refused();
    CHECK(error.code == ErrorCode::kUnavailable);
    CHECK(contains(error.message, "Referenced \"Issuer\" not found"));
  }

  TEST_CASE("a denial is final, at once, with the approver's reason") {
    Answered denied(
        FakeCertManager::with(condition("Denied", "True", "policy.example", "no such names here")));
    const Error error = denied.refused();
    CHECK(error.code == ErrorCode::kPermissionDenied);
    CHECK(contains(error.message, "policy.example: no such names here"));
    CHECK(contains(error.message, "approve requests of namespace osm-system"));
    CHECK(denied.fake.waited < 1s);
  }

  TEST_CASE("a request that the issuer calls invalid is not tried again as it is") {
    Answered invalid(FakeCertManager::with(
        condition("InvalidRequest", "True", "BadUsages", "these usages are not allowed")));
    const Error error = invalid.refused();
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(contains(error.message, "these usages are not allowed"));
  }

  TEST_CASE("a failure may pass") {
    Answered failed(FakeCertManager::with(
        condition("Ready", "False", "Failed", "Error signing certificate: no such key")));
    const Error error = failed.refused();
    CHECK(error.code == ErrorCode::kUnavailable);
    CHECK(contains(error.message, "Error signing certificate: no such key"));
    CHECK(failed.fake.waited < 1s);
    failed.fake.act = [&](const json::object& request) {
      return failed.fake.issued(request, failed.fake.authority);
    };
    CHECK(failed.issuer->sign(failed.fake.request()).ok());
  }

  TEST_CASE("a condition that does not hold is none") {
    Answered odd({});
    odd.fake.act = [&](const json::object& request) {
      json::object status = odd.fake.issued(request, odd.fake.authority);
      status["conditions"].as_array().push_back(condition("Denied", "False"));
      status["conditions"].as_array().push_back(condition("InvalidRequest", "Unknown"));
      return status;
    };
    CHECK(odd.issuer->sign(odd.fake.request()).ok());
  }

  TEST_CASE("without cert-manager in the cluster the error says so") {
    FakeCertManager fake;
    fake.cluster.memory.set_fault([](const std::string& call) -> Status {
      if (call.find("certificaterequests") == std::string::npos) return {};
      return Error{ErrorCode::kNotFound, "the server could not find the requested resource"};
    });
    const auto issuer = fake.make();
    REQUIRE_FALSE(issuer.ok());
    CHECK(issuer.error().code == ErrorCode::kUnavailable);
    CHECK(contains(issuer.error().message, "cert-manager is not installed"));
  }

  TEST_CASE("without permissions the error names the missing grants") {
    FakeCertManager fake;
    fake.cluster.memory.set_fault([](const std::string& call) -> Status {
      if (!call.starts_with("create")) return {};
      return Error{ErrorCode::kPermissionDenied, "certificaterequests is forbidden"};
    });
    const auto issuer = fake.make();
    REQUIRE_FALSE(issuer.ok());
    CHECK(issuer.error().code == ErrorCode::kPermissionDenied);
    CHECK(contains(issuer.error().message, "certificaterequests is forbidden"));
    CHECK(contains(issuer.error().message, "create, get, list and delete"));
  }

  TEST_CASE("an API server that is away for a moment is asked again") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    fake.waited = 0s;
    fake.cluster.memory.set_fault([&](const std::string& call) -> Status {
      if (!call.starts_with("get") || fake.waited > 10s) return {};
      return Error{ErrorCode::kUnavailable, "connection refused"};
    });
    CHECK(issuer->sign(fake.request()).ok());
    CHECK(fake.waited > 10s);
    CHECK(fake.requests().empty());
  }

  TEST_CASE("a request whose creation was not answered is deleted as well") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    fake.cluster.memory.forget_writes();
    fake.cluster.memory.set_fault([&](const std::string& call) -> Status {
      if (!call.starts_with("create")) return {};
      return Error{ErrorCode::kDeadlineExceeded, "no answer"};
    });
    CHECK_FALSE(issuer->sign(fake.request()).ok());
    const auto writes = fake.cluster.memory.writes();
    REQUIRE(writes.size() == 1);
    CHECK(writes.front().starts_with("delete certificaterequests osm-system/osm-"));
  }

  TEST_CASE("old requests of a killed process are deleted, and nothing else") {
    FakeCertManager fake;
    const auto leave = [&](const std::string& name, json::object labels) {
      auto made = fake.cluster.memory.create(
          kRequests, json::object{{"metadata", json::object{{"namespace", "osm-system"},
                                                            {"name", name},
                                                            {"labels", std::move(labels)}}}});
      REQUIRE(made.ok());
      (*made)["status"] = json::object();  // answered, as far as the fake is concerned
      REQUIRE(fake.cluster.memory.update(kRequests, *made, "status").ok());
    };
    const json::object ours{{"app.kubernetes.io/name", "openservicemesh.io"},
                            {"app.kubernetes.io/component", "certificate-request"}};
    leave("osm-old", ours);
    leave("of-others", {});
    fake.clock.advance(9min);
    leave("osm-young", ours);
    fake.clock.advance(2min);
    const auto issuer = fake.made();
    const auto left = fake.requests();
    REQUIRE(left.size() == 2);
    CHECK(left[0].at("metadata").at("name") == "of-others");
    CHECK(left[1].at("metadata").at("name") == "osm-young");
    CHECK(fake.log.count("left behind") == 1);

    REQUIRE(issuer->sign(fake.request()).ok());
    CHECK(fake.requests().size() == 2);  // looked for every ten minutes only
    fake.clock.advance(11min);
    REQUIRE(issuer->sign(fake.request()).ok());
    CHECK(fake.requests().size() == 1);
  }
}

TEST_SUITE("cert_manager::Issuer and its CA") {
  TEST_CASE("an issuer that does not say its CA needs to be told the root") {
    FakeCertManager fake;
    fake.act = [&](const json::object& request) {
      return fake.issued(request, fake.authority, false);
    };
    const auto silent = fake.make();
    REQUIRE_FALSE(silent.ok());
    CHECK(silent.error().code == ErrorCode::kInvalidCertificate);
    CHECK(contains(silent.error().message, "status.ca is empty"));
    CHECK(contains(silent.error().message, "give the root as the trust bundle"));

    const auto told = fake.make({}, fake.authority.root_pem());
    REQUIRE_MESSAGE(told.ok(), told.error().text());
    CHECK((*told)->trust_bundle_pem() == fake.authority.root_pem());
    CHECK((*told)->sign(fake.request()).ok());
  }

  TEST_CASE("a configured root takes precedence over the issuer's own") {
    FakeCertManager fake;
    const Authority other(fake.clock);
    const auto issuer = fake.make({}, other.root_pem());
    REQUIRE_FALSE(issuer.ok());
    CHECK(issuer.error().code == ErrorCode::kInvalidCertificate);
    CHECK(contains(issuer.error().message, "Issuer osm-system/osm-ca"));
    CHECK(contains(issuer.error().message, "give the root that it signs below"));
  }

  TEST_CASE("a certificate of another CA is refused, and the issuer is unchanged") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    const std::string id = issuer->id();
    const Authority other(fake.clock);
    fake.act = [&](const json::object& request) { return fake.issued(request, other); };
    int changes = 0;
    const Subscription changed = issuer->subscribe([&] { ++changes; });
    const auto refused = issuer->sign(fake.request());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUnavailable);
    CHECK(contains(refused.error().message, "signs with another CA"));
    CHECK(contains(refused.error().message, "MeshRootCertificate"));
    CHECK(issuer->id() == id);
    CHECK(issuer->trust_bundle_pem() == fake.authority.root_pem());
    CHECK(changes == 0);

    fake.act = [&](const json::object& request) { return fake.issued(request, fake.authority); };
    CHECK(issuer->sign(fake.request()).ok());  // the former is back
  }

  TEST_CASE("a CA that was renewed over its key is followed, and the former stays trusted") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    const std::string id = issuer->id();
    const std::string former = fake.authority.root_pem();
    const WallTime end = issuer->not_after();
    int changes = 0;
    const Subscription changed = issuer->subscribe([&] { ++changes; });
    fake.clock.advance(24h * 100);
    fake.authority.renew();
    for (int i = 0; i < 3; ++i) {
      const auto request = fake.request();
      const auto chain = issuer->sign(request);
      REQUIRE_MESSAGE(chain.ok(), chain.error().text());
      CHECK(certificate::check_answer({request.subject, request.request_pem, *chain,
                                       issuer->trust_bundle_pem(), request.validity},
                                      fake.clock)
                .ok());
    }
    CHECK(changes == 1);
    CHECK(issuer->id() != id);
    CHECK(issuer->not_after() > end);
    CHECK(contains(issuer->trust_bundle_pem(), former));
    CHECK(contains(issuer->trust_bundle_pem(), fake.authority.root_pem()));
  }

  TEST_CASE("no request outlives the CA") {
    FakeCertManager fake;
    const auto issuer = fake.made();
    REQUIRE(issuer->sign(fake.request(24h * 3650)).ok());
    const std::string duration(fake.seen.back().at("spec").at("duration").as_string());
    CHECK(std::stol(duration) <= 365 * 24 * 3600);
    CHECK(std::stol(duration) > 364 * 24 * 3600);
  }
}

}  // namespace
