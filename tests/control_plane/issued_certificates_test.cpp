// Certificates of proxies stay recorded over restarts until they end; replicas share the record,
// which is bounded, and whose failures delay nobody.
#include "osm/certificate/issued_certificates.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace std::chrono_literals;

namespace {

// Replaces a text of the version that is named, as all records do.
class IssuedText final : public TextRecord {
 public:
  std::string name() const override { return "the record"; }
  Result<Text> load() override {
    ++loads;
    if (away) return Error{*away, "the record: is away"};
    return Text{text, std::to_string(version)};
  }
  Status store(const Text& next) override {
    if (away) return Error{*away, "the record: is away"};
    if (next.version != std::to_string(version)) return Error{ErrorCode::kConflict, "changed"};
    text = next.text;
    ++version;
    return {};
  }

  std::string text;
  std::optional<ErrorCode> away;
  int version = 0;  // number of writes
  int loads = 0;
};

struct FirstRng final : Rng {
  std::uint64_t next() override { return 0; }
};

struct IssuedRig {
  // A controller that starts; the one before has ended.
  void restart() {
    issued.reset();
    issued = make();
  }
  std::unique_ptr<IssuedCertificates> make() {
    return make_issued_certificates({.record = record, .runtime = runtime});
  }
  // Ends after `life`. Numbers are those of the machine and of the certificate.
  IssuedCertificate certificate(int machine, int number, std::chrono::seconds life = 24h) {
    const std::string uuid = "6f2c1a34-8d1e-4c5b-9a70-" + std::to_string(100000000000 + machine);
    return {.common_name = CommonName(uuid + ".api.shop"),
            .spiffe_id = SpiffeId("spiffe://cluster.local/osm/proxy/" + uuid + "/shop/api"),
            .proxy_id = ProxyId(uuid),
            .kind = WorkloadKind::kMachine,
            .serial_number = "0a" + std::to_string(1000000 + number),
            .issuer = "tresor:1",
            .not_before = clock.wall_now(),
            .not_after = clock.wall_now() + life};
  }
  static IssuedCertificate claimed(IssuedCertificate certificate) {
    certificate.claimed = true;
    return certificate;
  }
  IssuedCertificateList list(IssuedCertificates& of) {
    auto all = of.list();
    REQUIRE_MESSAGE(all.ok(), all.error().text());
    return *std::move(all);
  }
  std::vector<IssuedCertificate> certificates() { return list(*issued).certificates; }

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  FirstRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  const Runtime runtime{executor, executor, clock, rng, log, metrics};
  IssuedText record;
  std::unique_ptr<IssuedCertificates> issued = make();
};

using List = std::vector<IssuedCertificate>;

}  // namespace

TEST_SUITE("control_plane::IssuedCertificates") {
  TEST_CASE_FIXTURE(IssuedRig, "a restart keeps certificates, and knows which ones are claimed") {
    const IssuedCertificate one = certificate(1, 1), two = certificate(2, 2);
    issued->add(one);
    issued->add(two);
    CHECK(certificates() == List{one, two});  // before it is written
    executor.run_for(2s);
    issued->add(claimed(two));
    CHECK(certificates() == List{one, claimed(two)});
    restart();  // writes the claim
    CHECK(certificates() == List{one, claimed(two)});
    issued->add(claimed(two));  // its proxy comes back
    executor.run_for(2s);
    CHECK(certificates() == List{one, claimed(two)});
    CHECK(log.count("warning") == 0);
  }

  TEST_CASE_FIXTURE(IssuedRig, "a renewed certificate stands beside the one before, unclaimed") {
    const IssuedCertificate before = claimed(certificate(1, 7));
    issued->add(before);
    clock.advance(1h);
    const IssuedCertificate renewed = certificate(1, 3);
    issued->add(renewed);
    CHECK(certificates() == List{before, renewed});
  }

  TEST_CASE_FIXTURE(IssuedRig, "a certificate that ended is dropped, from the record too") {
    issued->add(certificate(1, 1, 1h));
    const IssuedCertificate two = certificate(2, 2, 3h);
    issued->add(two);
    executor.run_for(2s);
    CHECK(record.text.find("0a1000001") != std::string::npos);
    clock.advance(2h);
    CHECK(certificates() == List{two});
    CHECK_FALSE(list(*issued).dropped);
    issued->add(claimed(two));
    executor.run_for(2s);
    CHECK(record.text.find("0a1000001") == std::string::npos);
    CHECK(record.text.find("0a1000002") != std::string::npos);
  }

  TEST_CASE_FIXTURE(IssuedRig, "beyond the bound the oldest are dropped, and the list says so") {
    const int most = IssuedCertificates::kMost;
    for (int n = 0; n < most + 3; ++n) {
      issued->add(certificate(n, n, 24h));
      clock.advance(1s);
      if (n % 100 == 0) executor.run_for(1s);
    }
    executor.run_for(60s);
    const IssuedCertificateList all = list(*issued);
    CHECK(all.dropped);
    REQUIRE(all.certificates.size() == IssuedCertificates::kMost);
    CHECK(all.certificates.front().serial_number == "0a1000003");
    restart();
    CHECK(list(*issued).dropped);
    // The three that were dropped have ended, the others too.
    clock.advance(48h);
    CHECK_FALSE(list(*issued).dropped);
    CHECK(certificates().empty());
  }

  TEST_CASE_FIXTURE(IssuedRig, "long names do not make the record larger than a store takes") {
    const std::string name(200, 'n');
    for (int n = 0; n < 1500; ++n) {
      IssuedCertificate one = certificate(n, n);
      one.spiffe_id = SpiffeId("spiffe://" + name + "." + name + "/osm/proxy/" +
                               one.proxy_id.str() + "/shop/" + name);
      issued->add(one);
    }
    executor.run_for(2s);
    CHECK(record.text.size() < 1'000'000);
    CHECK(list(*issued).dropped);
    CHECK(certificates().size() > 500);
  }

  TEST_CASE_FIXTURE(IssuedRig, "replicas add to one record, and one learns the other's claims") {
    const auto other = make();
    const IssuedCertificate one = certificate(1, 1), two = certificate(2, 2);
    issued->add(one);
    other->add(two);
    executor.run_for(2s);
    CHECK(certificates() == List{one, two});
    // The proxy shows all of its certificate but its issuer.
    IssuedCertificate shown = claimed(one);
    shown.issuer.clear();
    other->add(shown);
    executor.run_for(2s);
    CHECK(certificates() == List{claimed(one), two});
    CHECK(list(*other).certificates == certificates());
  }

  TEST_CASE_FIXTURE(IssuedRig, "many joins are one write a second, and reconnections none") {
    for (int n = 0; n < 50; ++n) {
      issued->add(certificate(n, n));
      executor.run_for(100ms);
    }
    executor.run_for(2s);
    CHECK(record.version >= 2);
    CHECK(record.version <= 7);
    const List all = certificates();
    CHECK(all.size() == 50);
    const int writes = record.version;
    restart();
    const int loads = record.loads;
    for (const IssuedCertificate& one : all) issued->add(one);
    executor.run_for(1s);
    for (const IssuedCertificate& one : all) issued->add(one);
    executor.run_for(60s);
    CHECK(record.version == writes);
    CHECK(record.loads == loads + 1);
  }

  TEST_CASE_FIXTURE(IssuedRig, "a record that fails is a problem, logged once, and loses nothing") {
    record.away = ErrorCode::kUnavailable;
    const IssuedCertificate one = certificate(1, 1), two = certificate(2, 2);
    issued->add(one);
    executor.run_for(1s);
    CHECK_FALSE(issued->problem());  // most outages are over soon
    executor.run_for(20s);
    issued->add(two);
    executor.run_for(20s);
    REQUIRE(issued->problem());
    CHECK(issued->problem()->code == ErrorCode::kUnavailable);
    CHECK(issued->problem()->path == "the record");
    CHECK(issued->problem()->cause.find("is away") != std::string::npos);
    CHECK(log.count("issued certificates cannot be recorded") == 1);
    CHECK(issued->list().error().code == ErrorCode::kUnavailable);
    record.away.reset();
    executor.run_for(10s);
    CHECK_FALSE(issued->problem());
    CHECK(log.count("issued certificates can be recorded again") == 1);
    restart();
    CHECK(certificates() == List{one, two});
  }

  TEST_CASE_FIXTURE(IssuedRig,
                    "a damaged record is not replaced, and its problem says what to do") {
    for (const char* damage :
         {"nonsense", R"({"certificates":[{"serial_number":"1"}]})",
          R"({"certificates":[{"spiffe_id":)"
          R"("spiffe://d/osm/proxy/6f2c1a34-8d1e-4c5b-9a70-100000000001/shop/api"}]})"}) {
      CAPTURE(damage);
      record.text = damage;
      restart();
      issued->add(certificate(1, 1));
      executor.run_for(30s);
      REQUIRE(issued->problem());
      CHECK(issued->problem()->code == ErrorCode::kInvalidSyntax);
      CHECK(issued->problem()->cause.find("delete the record") != std::string::npos);
      CHECK(record.text == damage);
    }
    record.text.clear();
    executor.run_for(10s);
    CHECK(certificates().size() == 1);
  }

  TEST_CASE_FIXTURE(IssuedRig, "times that do not fit are the nearest ones") {
    record.text = R"({"certificates":[{"serial_number":"1","not_before":-9223372036854775808,)"
                  R"("not_after":9223372036854775807,"spiffe_id":)"
                  R"("spiffe://d/osm/pod/6f2c1a34-8d1e-4c5b-9a70-100000000001/shop/api"}]})";
    REQUIRE(certificates().size() == 1);
    CHECK(certificates().front().kind == WorkloadKind::kPod);
    issued->add(certificate(1, 1));
    executor.run_for(2s);
    CHECK(certificates().size() == 2);
  }
}
