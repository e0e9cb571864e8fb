// Issued leaves have the right names, uses and lifetimes, and OpenSSL verifies them.
#include "certificate/local_issuer.hpp"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include "certificate/issuance.hpp"
#include "certificate/x509.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const TrustDomain kDomain("cluster.local");

struct Ca {
  explicit Ca(const Clock& c) : clock(c), root(make_root_pem(clock).value()) {
    issuer = make_local_issuer(root.pem(), kDomain, clock).value();
  }
  Result<Certificate> issue(const Subject& subject, seconds validity,
                            const KeyParameters& key = {}) const {
    return certificate::issue(*issuer, subject, validity, key, clock);
  }
  const Clock& clock;
  PrivateKey root;
  std::unique_ptr<Issuer> issuer;
};

Subject subject(std::string name, std::string path, Usage usage = Usage::kWorkload) {
  Subject made{CommonName(std::move(name)), SpiffeId("spiffe://cluster.local" + path), usage};
  if (usage == Usage::kWebhook) made.dns_names = {made.common_name.str()};
  return made;
}

const Subject kBuyer = subject("buyer.shop.cluster.local", "/ns/shop/sa/buyer");

openssl::X509Handle leaf_of(const Certificate& issued) {
  return x509::parse_certificate(issued.chain_pem).value();
}

// OpenSSL's own judgement: 0 (X509_V_OK) or a reason.
int verify(const Certificate& issued, const std::string& roots, int purpose, WallTime when) {
  const openssl::CleanErrorQueue clean;
  const auto leaf = leaf_of(issued);
  const auto root = x509::parse_certificate(roots).value();
  const openssl::Handle<X509_STORE, X509_STORE_free> store(X509_STORE_new());
  const openssl::Handle<X509_STORE_CTX, X509_STORE_CTX_free> context(X509_STORE_CTX_new());
  REQUIRE(X509_STORE_add_cert(store.get(), root.get()) == 1);
  REQUIRE(X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), nullptr) == 1);
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  X509_STORE_CTX_set_time(context.get(), 0,
                          std::chrono::floor<seconds>(when).time_since_epoch().count());
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  return X509_verify_cert(context.get()) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context.get());
}

std::string common_name(X509& certificate) {
  X509_NAME* name = X509_get_subject_name(&certificate);
  REQUIRE(X509_NAME_entry_count(name) == 1);
  const ASN1_STRING* data = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, 0));
  CHECK(ASN1_STRING_type(data) == V_ASN1_UTF8STRING);
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(data)),
          static_cast<std::size_t>(ASN1_STRING_length(data))};
}

std::vector<std::string> uri_names(X509& certificate) {
  const openssl::Handle<GENERAL_NAMES, GENERAL_NAMES_free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> uris;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.ia5)),
                      static_cast<std::size_t>(ASN1_STRING_length(name->d.ia5)));
  }
  return uris;
}

}  // namespace

TEST_SUITE("certificate::LocalIssuer") {
  TEST_CASE("OpenSSL verifies an issued chain for the uses asked for, and for no other") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    struct Row {
      Usage usage;
      bool client, server;
    };
    for (const Row row : {Row{Usage::kWorkload, true, true}, Row{Usage::kProxy, true, false},
                          Row{Usage::kController, false, true}, Row{Usage::kWebhook, false, true},
                          Row{Usage::kGateway, true, false}}) {
      for (const KeyType type : {KeyType::kEcdsaP256, KeyType::kRsa}) {
        const auto issued =
            ca.issue(subject("a.b.cluster.local", "/ns/b/sa/a", row.usage), hours(1), {type, 2048});
        REQUIRE(issued.ok());
        const auto judge = [&](int purpose) {
          return verify(*issued, ca.issuer->trust_bundle_pem(), purpose, clock.wall_now());
        };
        CHECK(judge(X509_PURPOSE_SSL_CLIENT) ==
              (row.client ? X509_V_OK : X509_V_ERR_INVALID_PURPOSE));
        CHECK(judge(X509_PURPOSE_SSL_SERVER) ==
              (row.server ? X509_V_OK : X509_V_ERR_INVALID_PURPOSE));
      }
    }
  }

  TEST_CASE("a leaf has the common name, exactly one URI SAN, and is no CA") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    const auto issued = ca.issue(kBuyer, hours(1));
    REQUIRE(issued.ok());
    const auto leaf = leaf_of(*issued);
    CHECK(common_name(*leaf) == kBuyer.common_name.str());
    CHECK(uri_names(*leaf) == std::vector<std::string>{kBuyer.spiffe_id.str()});
    CHECK(X509_check_ca(leaf.get()) == 0);
    CHECK((X509_get_extension_flags(leaf.get()) & EXFLAG_BCONS) != 0);
    CHECK(X509_get_key_usage(leaf.get()) == KU_DIGITAL_SIGNATURE);
    CHECK(EVP_PKEY_get_bits(X509_get0_pubkey(leaf.get())) == 256);
    CHECK(issued->fingerprint.size() == 64);
    CHECK(issued->serial_number.size() == 32);
    const auto key = x509::parse_key(issued->private_key.pem());
    REQUIRE(key.ok());
    CHECK(X509_check_private_key(leaf.get(), key->get()) == 1);
  }

  TEST_CASE("a webhook's leaf says its DNS name, and no other leaf does") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    for (const Usage usage :
         {Usage::kWorkload, Usage::kProxy, Usage::kController, Usage::kWebhook}) {
      const auto issued = ca.issue(
          subject("osm-validator.osm-system.svc", "/osm/webhook/osm-validator", usage), hours(1));
      REQUIRE(issued.ok());
      const auto leaf = leaf_of(*issued);
      CHECK((X509_check_host(leaf.get(), "osm-validator.osm-system.svc", 0,
                             X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, nullptr) == 1) ==
            (usage == Usage::kWebhook));
      CHECK(uri_names(*leaf).size() == 1);
    }
  }

  TEST_CASE("two issuances of one subject share neither key nor serial number") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    const auto one = ca.issue(kBuyer, hours(1));
    const auto two = ca.issue(kBuyer, hours(1));
    CHECK(one->serial_number != two->serial_number);
    CHECK(one->fingerprint != two->fingerprint);
    CHECK(one->private_key.pem() != two->private_key.pem());
  }

  TEST_CASE("RSA keys come in the size asked for, with keyEncipherment, from 2048 to 4096 bits") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    const auto issued = ca.issue(kBuyer, hours(1), {KeyType::kRsa, 3072});
    REQUIRE(issued.ok());
    const auto leaf = leaf_of(*issued);
    CHECK(EVP_PKEY_get_bits(X509_get0_pubkey(leaf.get())) == 3072);
    CHECK(X509_get_key_usage(leaf.get()) == (KU_DIGITAL_SIGNATURE | KU_KEY_ENCIPHERMENT));
    for (const int bits : {0, 1024, 2047, 4097, 16384}) {
      const auto refused = ca.issue(kBuyer, hours(1), {KeyType::kRsa, bits});
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kInvalidArgument);
      CHECK(refused.error().message.find("certKeyBitSize") != std::string::npos);
    }
  }

  TEST_CASE("names of the longest service, namespace and account are certified whole") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    const std::string service(63, 's');
    const std::string ns(63, 'n');
    const std::string uuid = "6f2c8a4e-0b8e-4c59-9b43-2a3f0c1d7e55";
    const std::string name = uuid + "." + service + "." + ns;
    const auto issued = ca.issue(
        subject(name, "/osm/proxy/" + uuid + "/" + ns + "/" + std::string(253, 'a'), Usage::kProxy),
        hours(1));
    REQUIRE(issued.ok());
    CHECK(common_name(*leaf_of(*issued)) == name);
    CHECK(verify(*issued, ca.issuer->trust_bundle_pem(), X509_PURPOSE_SSL_CLIENT,
                 clock.wall_now()) == X509_V_OK);
  }

  TEST_CASE("names that readers could take for others are refused, and the refusal says so") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    using namespace std::string_literals;
    std::vector<Subject> bad;
    for (const std::string& name :
         {""s, "a\0b"s, "*.shop"s, "a b"s, "a/b"s, "a,CN=b"s, "\xc3\xa4"s, std::string(1025, 'a')})
      bad.push_back(subject(name, "/ns/shop/sa/buyer"));
    for (const std::string& path :
         {""s, "/"s, "/ns/"s, "/ns//sa/a"s, "/ns/./sa"s, "/ns/../sa"s, "/ns/a%2fb"s, "/ns/a?b"s,
          "/ns/a#b"s, "/ns/a b"s, "/ns/a\0b"s, ".evil/ns/a/sa/b"s, ":80/ns/a"s, "/*"s,
          "/" + std::string(2048, 'a')})
      bad.push_back(subject("ok", path));
    bad.push_back({CommonName("ok"), SpiffeId(""), Usage::kWorkload});
    bad.push_back({CommonName("ok"), SpiffeId("spiffe://other.org/ns/a/sa/b"), Usage::kWorkload});
    bad.push_back({CommonName("ok"), SpiffeId("https://cluster.local/ns/a"), Usage::kWorkload});
    for (const Subject& each : bad) {
      CAPTURE(each.common_name.str());
      CAPTURE(each.spiffe_id.str());
      const auto refused = ca.issue(each, hours(1));
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kInvalidArgument);
      CHECK(refused.error().message.find("cannot be certified") != std::string::npos);
      CHECK(refused.error().message.find('\0') == std::string::npos);
    }
  }

  TEST_CASE("a leaf begins ten minutes ago, lives as long as asked, and never outlives its CA") {
    osm::testing::ManualClock clock;
    const Ca ca(clock);
    const auto now = std::chrono::floor<seconds>(clock.wall_now());
    const auto issued = ca.issue(kBuyer, hours(48));
    REQUIRE(issued.ok());
    CHECK(issued->not_before == now - minutes(10));
    CHECK(issued->not_after == now + hours(48));

    clock.set_wall(ca.issuer->not_after() - hours(1));
    const auto capped = ca.issue(kBuyer, hours(48));
    REQUIRE(capped.ok());
    CHECK(capped->not_after == ca.issuer->not_after());
    CHECK(verify(*capped, ca.issuer->trust_bundle_pem(), X509_PURPOSE_SSL_CLIENT,
                 clock.wall_now()) == X509_V_OK);

    clock.set_wall(ca.issuer->not_after());
    const auto late = ca.issue(kBuyer, hours(48));
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::kCertificateExpired);
  }

  TEST_CASE("a validity of hundreds of years is capped, and one of nothing is refused") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    const auto forever = ca.issue(kBuyer, std::chrono::years(1000));
    REQUIRE(forever.ok());
    CHECK(forever->not_after == ca.issuer->not_after());
    CHECK_FALSE(ca.issue(kBuyer, seconds(0)).ok());
    CHECK_FALSE(ca.issue(kBuyer, seconds(-5)).ok());
  }

  TEST_CASE("the CA is a self-signed P-256 root for ten years that may sign leaves only") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    const auto root = x509::parse_certificate(ca.issuer->trust_bundle_pem()).value();
    CHECK(X509_check_ca(root.get()) == 1);
    CHECK(x509::issuer_key_id(*root).size() == 40);
    CHECK(ca.issue(kBuyer, hours(48))->issuer_key_id == x509::issuer_key_id(*root));
    CHECK(X509_get_pathlen(root.get()) == 0);
    CHECK(X509_get_key_usage(root.get()) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN));
    CHECK(X509_self_signed(root.get(), 1) == 1);
    CHECK(EVP_PKEY_get_bits(X509_get0_pubkey(root.get())) == 256);
    CHECK(ca.issuer->not_after() ==
          std::chrono::floor<seconds>(clock.wall_now()) + std::chrono::days(3650));
    char name[256];
    X509_NAME_oneline(X509_get_subject_name(root.get()), name, sizeof name);
    CHECK(std::string(name) == "/CN=osm-ca.openservicemesh.io/O=Open Service Mesh");
    CHECK(ca.issuer->trust_bundle_pem().find("PRIVATE") == std::string::npos);
  }

  TEST_CASE("a root that is not one is refused with the reason") {
    osm::testing::ManualClock clock;
    const Ca ca(clock);
    const Ca other(clock);
    const auto leaf = ca.issue(kBuyer, hours(1)).value();
    const std::string key = ca.root.pem().substr(0, ca.root.pem().find("-----BEGIN CERT"));
    const auto reason = [&](const std::string& pem) {
      const auto refused = make_local_issuer(pem, kDomain, clock);
      REQUIRE_FALSE(refused.ok());
      CHECK(ERR_peek_error() == 0);
      CHECK(refused.error().message.find("BEGIN") == std::string::npos);
      return refused.error().text();
    };
    CHECK(reason("") == "invalid-certificate: no unencrypted PEM private key");
    CHECK(reason("not PEM").find("no unencrypted PEM private key") != std::string::npos);
    CHECK(reason(key).find("no PEM certificate") != std::string::npos);
    CHECK(reason(ca.issuer->trust_bundle_pem()).find("private key") != std::string::npos);
    CHECK(reason(key + other.issuer->trust_bundle_pem()).find("does not belong") !=
          std::string::npos);
    CHECK(reason(leaf.private_key.pem() + leaf.chain_pem).find("not a CA") != std::string::npos);
    CHECK(reason(ca.root.pem() + other.issuer->trust_bundle_pem()).find("with one root") !=
          std::string::npos);
    CHECK(reason(ca.root.pem() + other.root.pem()).find("more than one") != std::string::npos);
    const WallTime then = clock.wall_now();
    clock.set_wall(then - hours(1));
    CHECK(reason(ca.root.pem()).find("not valid yet") != std::string::npos);
    clock.set_wall(ca.issuer->not_after());
    CHECK(reason(ca.root.pem()).find("certificate-expired") == 0);
  }

  TEST_CASE("calls neither trip over nor leave anything in OpenSSL's error queue") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);  // somebody else left this
    CHECK(ca.issue(kBuyer, hours(1)).ok());
    CHECK(ERR_peek_error() == 0);
    CHECK_FALSE(make_local_issuer("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                                  kDomain, clock)
                    .ok());
    CHECK(ERR_peek_error() == 0);
    CHECK_FALSE(ca.issue(kBuyer, hours(1), {KeyType::kRsa, 16}).ok());
    CHECK(ERR_peek_error() == 0);
    CHECK(make_root_pem(clock).ok());
    CHECK(ERR_peek_error() == 0);
  }

  TEST_CASE("an issuer serves several threads at once") {
    const osm::testing::ManualClock clock;
    const Ca ca(clock);
    std::vector<int> judged(4, -1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < judged.size(); ++i)
      threads.emplace_back([&, i] {
        for (int n = 0; n < 20; ++n) {
          const auto issued = ca.issue(kBuyer, hours(1));
          judged[i] = issued.ok() ? verify(*issued, ca.issuer->trust_bundle_pem(),
                                           X509_PURPOSE_SSL_CLIENT, clock.wall_now())
                                  : -1;
          if (judged[i] != X509_V_OK) return;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(judged == std::vector<int>(4, X509_V_OK));
  }
}
