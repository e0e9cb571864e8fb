// Requests and answers with any other name, key, use or time than expected are refused.
#include "osm/certificate/request.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "certificate/made_ca.hpp"
#include "certificate/manager_fixture.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using namespace std::string_literals;
using certificate::testing::Made;
using certificate::testing::Wanted;
using std::chrono::hours;

const std::string kUri = "spiffe://cluster.local/ns/shop/sa/buyer";
const Subject kBuyer{CommonName("buyer.shop.cluster.local"), SpiffeId(kUri), Usage::kWorkload};
const Subject kHook{CommonName("osm-injector.osm-system.svc"),
                    SpiffeId("spiffe://cluster.local/osm/webhook/osm-injector"),
                    Usage::kWebhook,
                    {"osm-injector.osm-system.svc"}};

// A request as an attacker would write it.
struct Asked {
  std::vector<std::string> common_names{kBuyer.common_name.str()};
  std::vector<std::pair<std::string, std::string>> extensions{{"subjectAltName", "URI:" + kUri}};
  openssl::Key key = certificate::testing::new_key();
  EVP_PKEY* signed_by = nullptr;  // its own when null
  const EVP_MD* digest = EVP_sha256();
  bool challenge = false;
  std::string replaced{};  // in an extension's DER, by as many bytes
  std::string by{};
};

std::string pem_of(const Asked& asked) {
  const openssl::Request request(X509_REQ_new());
  for (const std::string& name : asked.common_names)
    certificate::testing::add_common_name(X509_REQ_get_subject_name(request.get()), name);
  REQUIRE(X509_REQ_set_pubkey(request.get(), asked.key.get()) == 1);
  STACK_OF(X509_EXTENSION)* list = sk_X509_EXTENSION_new_null();
  for (const auto& [name, value] : asked.extensions) {
    X509_EXTENSION* extension = X509V3_EXT_conf(nullptr, nullptr, name.c_str(), value.c_str());
    REQUIRE_MESSAGE(extension, name, "=", value);
    if (!asked.replaced.empty()) {
      ASN1_OCTET_STRING* data = X509_EXTENSION_get_data(extension);
      std::string der(reinterpret_cast<const char*>(ASN1_STRING_get0_data(data)),
                      static_cast<std::size_t>(ASN1_STRING_length(data)));
      der.replace(der.find(asked.replaced), asked.replaced.size(), asked.by);
      REQUIRE(ASN1_STRING_set(data, der.data(), static_cast<int>(der.size())) == 1);
    }
    sk_X509_EXTENSION_push(list, extension);
  }
  if (sk_X509_EXTENSION_num(list) > 0) REQUIRE(X509_REQ_add_extensions(request.get(), list) == 1);
  sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
  if (asked.challenge)
    REQUIRE(X509_REQ_add1_attr_by_NID(request.get(), NID_pkcs9_challengePassword, MBSTRING_ASC,
                                      reinterpret_cast<const unsigned char*>("please"), -1) == 1);
  REQUIRE(X509_REQ_sign(request.get(), asked.signed_by ? asked.signed_by : asked.key.get(),
                        asked.digest) > 0);
  return x509::to_pem(*request).value();
}

// RSA that may sign with PSS only.
openssl::Key rsa_pss_key() {
  const openssl::Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "RSA-PSS", nullptr));
  EVP_PKEY* key = nullptr;
  REQUIRE(EVP_PKEY_keygen_init(context.get()) == 1);
  REQUIRE(EVP_PKEY_generate(context.get(), &key) == 1);
  return openssl::Key(key);
}

// By the manager, whose CA does not even see it.
void manager_refuses(const Subject& subject, const std::string& pem, const Error& error) {
  certificate::testing::ManagerFixture f;
  const auto refused = f.manager->certify_request(subject, pem, hours(1));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error() == error);
  CHECK(f.ca.attempts == 0);
  CHECK(f.manager->list_certificates().empty());
}

void refuses(const Subject& subject, const std::string& pem, const std::string& reason) {
  ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);  // somebody else left this
  const Status refused = check_request(subject, pem);
  CHECK(ERR_peek_error() == 0);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kInvalidArgument);
  CHECK_MESSAGE(refused.error().message.find(reason) != std::string::npos, refused.error().message);
  CHECK(refused.error().message.find('\0') == std::string::npos);
  manager_refuses(subject, pem, refused.error());
}

void refuses(Asked asked, const std::string& reason) { refuses(kBuyer, pem_of(asked), reason); }

}  // namespace

TEST_SUITE("certificate::check_request") {
  TEST_CASE("a made request is accepted for its subject only") {
    for (const KeyParameters& key :
         {KeyParameters{}, KeyParameters{KeyType::kRsa, 2048}, KeyParameters{KeyType::kEd25519}}) {
      const auto made = make_request(kBuyer, key);
      REQUIRE(made.ok());
      CHECK(check_request(kBuyer, made->request_pem).ok());
      CHECK(made->request_pem.find("PRIVATE") == std::string::npos);
      refuses(kHook, made->request_pem, "not exactly that common name");
      Subject other = kBuyer;
      other.spiffe_id = SpiffeId("spiffe://cluster.local/ns/shop/sa/thief");
      refuses(other, made->request_pem, "subjectAltName is not exactly");
    }
    const auto hook = make_request(kHook);
    REQUIRE(hook.ok());
    CHECK(check_request(kHook, hook->request_pem).ok());
    CHECK(ERR_peek_error() == 0);
  }

  TEST_CASE("other names, more names and names of other kinds are refused") {
    refuses({.common_names = {}}, "not exactly that common name");
    refuses({.common_names = {"thief"}}, "not exactly that common name");
    refuses({.common_names = {kBuyer.common_name.str(), "thief"}}, "not exactly that common name");
    for (const std::string& names :
         {"URI:spiffe://cluster.local/ns/shop/sa/thief"s, "URI:" + kUri + ",URI:" + kUri,
          "URI:" + kUri + ",URI:spiffe://cluster.local/ns/shop/sa/thief",
          "URI:" + kUri + ",DNS:buyer.shop", "URI:" + kUri + ",DNS:*.shop",
          "URI:" + kUri + ",IP:10.0.0.1", "URI:" + kUri + ",email:a@b.c",
          "URI:" + kUri + ",otherName:1.2.3;UTF8:x", "DNS:" + kBuyer.common_name.str(),
          "URI:" + kUri + "/", "URI:SPIFFE://cluster.local/ns/shop/sa/buyer"s}) {
      CAPTURE(names);
      refuses({.extensions = {{"subjectAltName", names}}}, "subjectAltName is not exactly");
    }
    refuses(kHook,
            pem_of({.common_names = {kHook.common_name.str()},
                    .extensions = {{"subjectAltName",
                                    "URI:" + kHook.spiffe_id.str() + ",DNS:*.osm-system.svc"}}}),
            "subjectAltName is not exactly");
  }

  TEST_CASE("a NUL in a name does not end it") {
    refuses({.common_names = {kBuyer.common_name.str() + "\0.evil"s}},
            "not exactly that common name");
    refuses({.extensions = {{"subjectAltName", "URI:" + kUri + "_evil"}},
             .replaced = "_evil",
             .by = "\0evil"s},
            "subjectAltName is not exactly");
    refuses(kHook,
            pem_of({.common_names = {kHook.common_name.str()},
                    .extensions = {{"subjectAltName", "URI:" + kHook.spiffe_id.str() +
                                                          ",DNS:" + kHook.dns_names[0] + "_evil"}},
                    .replaced = "_evil",
                    .by = "\0evil"s}),
            "subjectAltName is not exactly");
  }

  TEST_CASE("a wildcard name is refused") {
    refuses({.common_names = {"*.shop.cluster.local"}}, "not exactly that common name");
    refuses({.common_names = {"*"}}, "not exactly that common name");
    for (const char* names :
         {"URI:spiffe://cluster.local/ns/shop/sa/*", "URI:spiffe://cluster.local/*", "URI:*",
          "URI:spiffe://*/ns/shop/sa/buyer", "DNS:*"})
      refuses({.extensions = {{"subjectAltName", names}}}, "subjectAltName is not exactly");
    // Nor does a subject's own: what is asked for and what is authenticated agree, and are refused.
    for (const char* id : {"spiffe://cluster.local/ns/shop/sa/*", "spiffe://cluster.local/*",
                           "spiffe://*/ns/shop/sa/buyer"}) {
      Subject wild = kBuyer;
      wild.spiffe_id = SpiffeId(id);
      refuses(wild, pem_of({.extensions = {{"subjectAltName", "URI:"s + id}}}),
              "cannot be certified");
    }
    Subject wild = kBuyer;
    wild.common_name = CommonName("*.shop.cluster.local");
    refuses(wild, pem_of({.common_names = {wild.common_name.str()}}), "cannot be certified");
  }

  TEST_CASE("a request with other extensions than names is refused") {
    const std::pair<std::string, std::string> names{"subjectAltName", "URI:" + kUri};
    refuses({.extensions = {}}, "asks for more than names");
    refuses({.extensions = {names, names}}, "asks for more than names");
    refuses({.extensions = {names, {"basicConstraints", "critical,CA:TRUE"}}},
            "asks for more than names");
    refuses({.extensions = {names, {"keyUsage", "keyCertSign"}}}, "asks for more than names");
    refuses({.extensions = {names, {"extendedKeyUsage", "anyExtendedKeyUsage"}}},
            "asks for more than names");
    refuses({.extensions = {names, {"1.2.3.4", "DER:0500"}}}, "asks for more than names");
    refuses({.extensions = {{"basicConstraints", "CA:TRUE"}}}, "asks for more than names");
    refuses({.challenge = true}, "asks for more than names");
    refuses({.extensions = {names}, .replaced = "spiffe", .by = "\xff\xff\xff\xff\xff\xff"},
            "subjectAltName");
  }

  TEST_CASE("weak and unusual keys are refused, and keys that the requester does not hold") {
    refuses({.key = openssl::Key(EVP_RSA_gen(1024))}, "its key is not taken");
    refuses({.key = openssl::Key(EVP_RSA_gen(4104))}, "its key is not taken");
    refuses({.key = rsa_pss_key()}, "its key is not taken");
    for (const char* group : {"P-224", "P-384", "P-521", "secp256k1", "brainpoolP256r1"})
      refuses({.key = openssl::Key(EVP_EC_gen(group))}, "its key is not taken");
    refuses({.key = openssl::Key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED448")), .digest = nullptr},
            "its key is not taken");
    const openssl::Key thiefs = certificate::testing::new_key();
    refuses({.signed_by = thiefs.get()}, "signature is not by its own key");
  }

  TEST_CASE("no request, several requests and too large ones are refused") {
    const std::string good = pem_of({});
    CHECK(check_request(kBuyer, good).ok());
    refuses(kBuyer, "", "no PEM certificate request");
    refuses(kBuyer,
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
            "no PEM certificate request");
    refuses(kBuyer, good.substr(0, good.size() / 2), "no PEM certificate request");
    refuses(kBuyer, good + good, "more than one");
    refuses(kBuyer, good + std::string(20'000, '\n'), "larger than 16 kB");
    refuses({.common_names = {std::string(64 * 1024, 'x')}}, "larger than 16 kB");
    refuses({.common_names = std::vector<std::string>(300, kBuyer.common_name.str())},
            "not exactly that common name");
    // Nobody is asked for a passphrase.
    std::string encrypted = good;
    encrypted.insert(good.find('\n') + 1,
                     "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"
                     "00112233445566778899AABBCCDDEEFF\n\n");
    refuses(kBuyer, encrypted, "no PEM certificate request");
    std::string flipped = good;
    flipped[good.size() / 2] = flipped[good.size() / 2] == 'A' ? 'B' : 'A';
    CHECK_FALSE(check_request(kBuyer, flipped).ok());
    CHECK(ERR_peek_error() == 0);
  }

  TEST_CASE("a workload has the DNS name of its own account, and no other") {
    Subject workload = kBuyer;
    const std::string id = workload.spiffe_id.str();
    REQUIRE(id == "spiffe://cluster.local/ns/shop/sa/buyer");
    workload.dns_names = {"buyer.shop.cluster.local"};
    const auto made = make_request(workload);
    REQUIRE(made.ok());
    CHECK(check_request(workload, made->request_pem).ok());
    CHECK_FALSE(check_request(kBuyer, made->request_pem).ok());  // without a DNS name
    for (const std::string name : {"seller.shop.cluster.local", "buyer.shop.other.domain",
                                   "buyer.shop", "x.buyer.shop.cluster.local"}) {
      workload.dns_names = {name};
      CHECK_FALSE(make_request(workload).ok());
    }
    for (const std::string path : {"/osm/proxy/shop/sa/buyer", "/ns/shop/sa/buyer/x", "/ns/shop"}) {
      workload.dns_names = {"buyer.shop.cluster.local"};
      workload.spiffe_id = SpiffeId("spiffe://cluster.local" + path);
      CHECK_FALSE(make_request(workload).ok());
    }
  }

  TEST_CASE("subjects that cannot be certified get no request") {
    Subject wild = kHook;
    wild.dns_names = {"*.osm-system.svc"};
    Subject dns = kBuyer;
    dns.dns_names = {"buyer.shop"};
    Subject without = kHook;
    without.dns_names.clear();
    Subject nul = kHook;
    nul.dns_names = {"a.svc\0.evil"s};
    Subject scheme = kBuyer;
    scheme.spiffe_id = SpiffeId("https://cluster.local/ns/shop/sa/buyer");
    Subject domain = kBuyer;
    domain.spiffe_id = SpiffeId("spiffe:///ns/shop/sa/buyer");
    for (const Subject& each : {wild, dns, without, nul, scheme, domain}) {
      const auto refused = make_request(each);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kInvalidArgument);
      CHECK(refused.error().message.find("cannot be certified") != std::string::npos);
    }
  }
}

TEST_SUITE("certificate::check_answer") {
  struct BadCa {
    osm::testing::ManualClock clock;
    WallTime now = clock.wall_now();
    Made root = certificate::testing::make_ca("root", now);
    KeyAndRequest asked = make_request(kBuyer).value();
    openssl::Key key = x509::parse_key(asked.key.pem()).value();
    Wanted good{.common_name = kBuyer.common_name.str(),
                .extensions = {{"basicConstraints", "critical,CA:FALSE"},
                               {"keyUsage", "critical,digitalSignature"},
                               {"extendedKeyUsage", "clientAuth,serverAuth"},
                               {"subjectAltName", "URI:" + kUri}},
                .not_before = now - hours(1),
                .not_after = now + hours(48)};

    Result<Certificate> check(const std::string& chain, const std::string& bundle) const {
      return check_answer({kBuyer, asked.request_pem, chain, bundle, hours(48)}, clock);
    }
    std::string leaf(const Wanted& wanted) const {
      return x509::to_pem(*certificate::testing::make_certificate(wanted, *key, &root)).value();
    }
    void refuses(const std::string& chain, const std::string& bundle,
                 const std::string& reason) const {
      const auto refused = check(chain, bundle);
      CHECK(ERR_peek_error() == 0);
      REQUIRE_FALSE(refused.ok());
      CHECK(refused.error().code == ErrorCode::kInvalidCertificate);
      CHECK_MESSAGE(refused.error().message.find(reason) != std::string::npos,
                    refused.error().message);
    }
    // As `good`, but for one thing.
    void refuses(const std::function<void(Wanted&)>& spoil, const std::string& reason) const {
      Wanted bad = good;
      spoil(bad);
      refuses(leaf(bad), root.pem(), reason);
    }
  };

  TEST_CASE("the certificate that was asked for is taken, and its facts are read from it") {
    const BadCa ca;
    const auto taken = ca.check(ca.leaf(ca.good), ca.root.pem());
    REQUIRE_MESSAGE(taken.ok(), taken.error().text());
    CHECK(taken->subject == kBuyer);
    CHECK(taken->private_key.empty());
    CHECK(taken->not_after == std::chrono::floor<std::chrono::seconds>(ca.good.not_after));
    CHECK(taken->fingerprint.size() == 64);
    // A root that comes along is not handed on.
    CHECK(ca.check(taken->chain_pem + ca.root.pem(), ca.root.pem())->chain_pem == taken->chain_pem);
  }

  TEST_CASE("intermediates are put in their order, whatever the CA's") {
    const BadCa ca;
    const Made middle = certificate::testing::make_ca("middle", ca.now, &ca.root);
    const Made low = certificate::testing::make_ca("low", ca.now, &middle);
    const std::string leaf =
        x509::to_pem(*certificate::testing::make_certificate(ca.good, *ca.key, &low)).value();
    const auto taken = ca.check(leaf + middle.pem() + low.pem(), ca.root.pem());
    REQUIRE_MESSAGE(taken.ok(), taken.error().text());
    CHECK(taken->chain_pem == leaf + low.pem() + middle.pem());
    ca.refuses(leaf + middle.pem(), ca.root.pem(), "does not end at a root");
  }

  TEST_CASE("other names, other uses, a CA, and other times are refused") {
    const BadCa ca;
    const auto with = [](const char* name, const char* value) {
      return [=](Wanted& wanted) {
        for (auto& [key, text] : wanted.extensions)
          if (key == name) text = value;
      };
    };
    const auto without = [](const char* name) {
      return [=](Wanted& wanted) {
        std::erase_if(wanted.extensions, [&](const auto& each) { return each.first == name; });
      };
    };
    ca.refuses([](Wanted& w) { w.common_name = "thief"; }, "another common name");
    ca.refuses([](Wanted& w) { w.common_name += "\0.evil"s; }, "another common name");
    ca.refuses([](Wanted& w) { w.common_name = "*.shop.cluster.local"; }, "another common name");
    ca.refuses(with("subjectAltName", "URI:spiffe://cluster.local/ns/shop/sa/*"),
               "subjectAltName is not exactly");
    ca.refuses(with("subjectAltName", "URI:spiffe://cluster.local/ns/shop/sa/thief"),
               "subjectAltName is not exactly");
    ca.refuses(
        with("subjectAltName", "URI:spiffe://cluster.local/ns/shop/sa/buyer,DNS:osm-controller"),
        "subjectAltName is not exactly");
    ca.refuses(without("subjectAltName"), "subjectAltName is not exactly");
    ca.refuses(with("basicConstraints", "critical,CA:TRUE"), "is a CA itself");
    ca.refuses(with("keyUsage", "critical,digitalSignature,cRLSign"), "keyUsage");
    ca.refuses(with("keyUsage", "critical,keyAgreement"), "keyUsage");
    ca.refuses(with("extendedKeyUsage", "clientAuth"), "extendedKeyUsage");
    ca.refuses(with("extendedKeyUsage", "clientAuth,serverAuth,codeSigning"), "extendedKeyUsage");
    ca.refuses(with("extendedKeyUsage", "anyExtendedKeyUsage"), "extendedKeyUsage");
    ca.refuses(without("extendedKeyUsage"), "extendedKeyUsage");
    ca.refuses([&](Wanted& w) { w.not_before = ca.now + hours(1); }, "not valid yet");
    ca.refuses([&](Wanted& w) { w.not_after = ca.now - hours(1); }, "expired");
    ca.refuses([&](Wanted& w) { w.not_after = ca.now + hours(97); }, "more than twice as long");
  }

  TEST_CASE("another key, another CA and noise are refused") {
    const BadCa ca;
    const auto other_key = certificate::testing::new_key();
    ca.refuses(x509::to_pem(*certificate::testing::make_certificate(ca.good, *other_key, &ca.root))
                   .value(),
               ca.root.pem(), "another key");
    ca.refuses(ca.leaf(ca.good), certificate::testing::make_ca("root", ca.now).pem(),
               "does not end at a root");
    ca.refuses("", ca.root.pem(), "no PEM certificate");
    ca.refuses(ca.leaf(ca.good) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
               ca.root.pem(), "cannot be read");
    ca.refuses(std::string(300'000, 'x'), ca.root.pem(), "larger than 256 kB");
    std::string long_chain = ca.leaf(ca.good);
    for (int i = 0; i < 10; ++i) long_chain += ca.root.pem();
    ca.refuses(long_chain, ca.root.pem(), "longer than 10");
  }
}
