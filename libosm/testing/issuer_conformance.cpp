#include "osm/testing/issuer_conformance.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "osm/certificate/request.hpp"
#include "testing/conformance_suite.hpp"

namespace osm::inline v1::testing {
namespace {

using certificate::Certificate;
using certificate::Issuer;
using std::chrono::hours;
using std::chrono::seconds;

constexpr hours kLife{48};

certificate::Subject store(const std::string& name = "store") {
  return {.common_name = CommonName(name + ".shop.cluster.local"),
          .spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/" + name)};
}

class IssuerBench {
 public:
  IssuerBench(const IssuerPlatformFactory& factory, const IssuerConformanceOptions& options,
              OnStep on_step)
      : options_(options), on_step_(std::move(on_step)), platform_(factory()) {}

  const IssuerConformanceOptions& options() const { return options_; }
  IssuerPlatform& platform() { return *platform_; }
  void step(std::string what) { on_step_(std::move(what)); }

  std::unique_ptr<Issuer> open() {
    step("opening an issuer");
    auto issuer = platform_->open();
    step("calling an issuer");
    return issuer;
  }
  // A certificate over a key of this kind, checked as the manager does. Failure: of sign(), or of
  // the check.
  Result<Certificate> sign(Issuer& issuer, seconds validity = kLife,
                           const certificate::KeyParameters& key = {}) {
    const certificate::Subject subject = store();
    platform_->expect(subject);
    OSM_TRY(const auto made, certificate::make_request(subject, key));
    return ask(issuer, subject, made.request_pem, validity);
  }
  // For subjects that the platform expects. Thread: any.
  Result<Certificate> ask(Issuer& issuer, const certificate::Subject& subject,
                          const std::string& request_pem, seconds validity) const {
    OSM_TRY(const std::string chain, issuer.sign({subject, request_pem, validity}));
    return certificate::check_answer(
        {subject, request_pem, chain, issuer.trust_bundle_pem(), validity}, platform_->clock());
  }

 private:
  const IssuerConformanceOptions options_;
  const OnStep on_step_;
  const std::unique_ptr<IssuerPlatform> platform_;
};

std::string seen(const Result<Certificate>& signed_by) {
  return signed_by.ok() ? "a certificate" : signed_by.error().text();
}

Verdict signs(IssuerBench& bench) {
  const auto issuer = bench.open();
  for (const auto type : {KeyType::kEcdsaP256, KeyType::kRsa, KeyType::kEd25519}) {
    const auto answer = bench.sign(*issuer, kLife, {.type = type});
    if (!answer.ok())
      return failed(
          "sign() gives a certificate over the request's key, with the subject's names alone, of "
          "the validity at most, that the trust bundle verifies",
          seen(answer));
    if (answer->not_after > issuer->not_after())
      return failed("no certificate outlives the CA", "one that ends after not_after()");
  }
  return passed("certificates over ECDSA, RSA and Ed25519 keys");
}

Verdict identity(IssuerBench& bench) {
  const auto issuer = bench.open(), other = bench.open();
  const std::string id = issuer->id(), bundle = issuer->trust_bundle_pem();
  if (id.empty()) return failed("id() is never empty", "it is empty");
  if (bundle.find("-----BEGIN CERTIFICATE-----") == std::string::npos)
    return failed("trust_bundle_pem() has the roots as PEM", "no certificate");
  if (bundle.find("PRIVATE KEY") != std::string::npos)
    return failed("no key leaves the issuer", "the trust bundle has a private key");
  if (const Status healthy = issuer->health(); !healthy.ok())
    return failed("health() is ok while the issuer can sign", healthy.error().text());
  if (issuer->not_after() <= bench.platform().clock().wall_now())
    return failed("not_after() is the end of the CA", "it is over");
  if (!bench.sign(*issuer).ok()) return not_judged("signs");
  if (issuer->id() != id || issuer->trust_bundle_pem() != bundle)
    return failed("without a change of the CA its id and bundle stay", "others after a signature");
  if (other->id() != id)
    return failed("replicas with one CA have one id, or each takes it for a change of the CA",
                  "'" + id + "' and '" + other->id() + "'");
  return passed(id);
}

Verdict life(IssuerBench& bench) {
  const auto issuer = bench.open();
  const WallTime end = issuer->not_after();
  const WallTime now = bench.platform().clock().wall_now();
  const auto left =
      std::chrono::ceil<seconds>(std::min<WallTime::duration>(end - now, std::chrono::years(20)));
  const auto answer = bench.sign(*issuer, left + hours(24 * 365));
  if (!answer.ok()) return failed("a validity beyond the CA's end is shortened", seen(answer));
  if (answer->not_after > end)
    return failed("no certificate outlives the CA", "one that ends after not_after()");
  return passed("shortened to the CA's end");
}

Verdict refuses(IssuerBench& bench) {
  const auto issuer = bench.open();
  const certificate::Subject subject = store();
  bench.platform().expect(subject);
  for (const std::string& text : {std::string(), std::string("no request"),
                                  std::string("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"
                                              "-----END CERTIFICATE REQUEST-----\n")})
    if (const auto chain = issuer->sign({subject, text, kLife}); chain.ok())
      return failed("a text that is no request is a failure", "an answer");
  if (!bench.sign(*issuer).ok())
    return failed("after a refusal the issuer signs as before", "it does not");
  return passed("refused");
}

Verdict concurrent(IssuerBench& bench) {
  const auto issuer = bench.open();
  const certificate::Subject subject = store();
  bench.platform().expect(subject);
  std::vector<std::string> wrong(static_cast<std::size_t>(bench.options().signers));
  bench.step("signing on several threads at once");
  std::vector<std::thread> threads;
  for (std::string& each : wrong)
    threads.emplace_back([&] {
      const auto made = certificate::make_request(subject);
      if (!made.ok()) return;
      const auto answer = bench.ask(*issuer, subject, made->request_pem, kLife);
      if (!answer.ok()) each = seen(answer);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : wrong)
    if (!each.empty()) return failed("any thread may ask, several at once", each);
  return passed("a certificate for each thread");
}

Verdict outage(IssuerBench& bench) {
  if (!bench.platform().traits().outages) return not_applicable("the CA is always reachable");
  const auto issuer = bench.open();
  if (!bench.sign(*issuer).ok()) return not_judged("signs");
  const std::string id = issuer->id(), bundle = issuer->trust_bundle_pem();
  bench.step("asking while the CA is away");
  bench.platform().set_reachable(false);
  const auto answer = bench.sign(*issuer);
  if (answer.ok() || answer.error().code != ErrorCode::kUnavailable)
    return failed("a CA that cannot be reached is kUnavailable: the manager tries again",
                  seen(answer));
  const auto begun = RealTime::now();
  const bool stays = issuer->id() == id && issuer->trust_bundle_pem() == bundle;
  static_cast<void>(issuer->not_after());
  static_cast<void>(issuer->health());
  if (RealTime::now() - begun > bench.options().call_limit)
    return failed("id(), trust_bundle_pem(), not_after() and health() never block",
                  "they did not return in time");
  if (!stays) return failed("an outage changes neither id nor bundle", "others");
  bench.platform().set_reachable(true);
  Result<Certificate> back = Error{ErrorCode::kInternal, "not asked"};
  for (int i = 0; i < 10 && !back.ok(); ++i) {
    bench.platform().pass(std::chrono::minutes(1));
    back = bench.sign(*issuer);
  }
  if (!back.ok()) return failed("when the CA is back the issuer signs", seen(back));
  return passed(answer.error().text());
}

Verdict changes(IssuerBench& bench) {
  if (!bench.platform().traits().changes) return not_applicable("the CA stays");
  const auto issuer = bench.open();
  if (!bench.sign(*issuer).ok()) return not_judged("signs");
  const std::string id = issuer->id();
  std::atomic<int> told{0}, silent{0};
  const Subscription listening = issuer->subscribe([&] { ++told; });
  Subscription ended = issuer->subscribe([&] { ++silent; });
  ended.reset();
  bench.step("replacing the CA");
  bench.platform().change_ca();
  Result<Certificate> answer = Error{ErrorCode::kInternal, "not asked"};
  for (int i = 0; i < 10 && (!answer.ok() || issuer->id() == id); ++i) {
    bench.platform().pass(std::chrono::minutes(1));
    answer = bench.sign(*issuer);
  }
  if (issuer->id() == id) return failed("another CA has another id", "the same after ten minutes");
  if (!answer.ok())
    return failed("the bundle of another CA verifies its certificates", seen(answer));
  bench.platform().pass(seconds(1));
  if (told == 0) return failed("subscribers hear of another CA", "nothing");
  if (silent != 0)
    return failed("no callback runs after its handle was destroyed", "one was called");
  return passed("told, from " + id + " to " + issuer->id());
}

Suite<IssuerBench> issuer_suite(const IssuerPlatformFactory& platform,
                                const IssuerConformanceOptions& options) {
  return {"issuer",
          "issuer_clauses()",
          {
              {{"signs", "its certificates pass the manager's checks"}, signs},
              {{"identity", "it knows its CA, as every replica does"}, identity},
              {{"life", "no certificate outlives the CA"}, life},
              {{"refuses", "a text that is no request is refused"}, refuses},
              {{"concurrent", "threads may ask at once"}, concurrent},
              {{"outage", "a CA that is away is a failure, and changes nothing"}, outage},
              {{"changes", "another CA is told, with its bundle"}, changes},
          },
          options.clause_deadline,
          [platform, options](const OnStep& on_step) {
            return std::make_unique<IssuerBench>(platform, options, on_step);
          }};
}

}  // namespace

std::vector<ConformanceClause> issuer_clauses() { return listed(issuer_suite({}, {}).clauses); }

ConformanceReport check_issuer(const IssuerPlatformFactory& platform,
                               const IssuerConformanceOptions& options) {
  return issuer_suite(platform, options).run_all();
}

ConformanceResult check_issuer_clause(std::string_view id, const IssuerPlatformFactory& platform,
                                      const IssuerConformanceOptions& options) {
  return issuer_suite(platform, options).run_one(id);
}

}  // namespace osm::inline v1::testing
