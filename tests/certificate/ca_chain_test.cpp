// An operator's root or intermediate is imported, and wrong chains are refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "certificate/issuance.hpp"
#include "certificate/local_issuer.hpp"
#include "certificate/made_ca.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using certificate::testing::Made;
using certificate::testing::make_ca;
using std::chrono::hours;

const TrustDomain kDomain("cluster.local");
const Subject kBuyer{CommonName("buyer.shop.cluster.local"),
                     SpiffeId("spiffe://cluster.local/ns/shop/sa/buyer"), Usage::kWorkload};

class MemoryStore final : public CaStore {
 public:
  std::string name() const override { return "memory"; }
  Result<std::optional<PrivateKey>> load() override {
    if (!held) return std::optional<PrivateKey>();
    return std::optional<PrivateKey>(std::in_place, std::string(*held));
  }
  Status create(const PrivateKey& pem) override {
    if (someone_first) held = *std::exchange(someone_first, std::nullopt);
    if (!held) held = pem.pem();
    return {};
  }
  std::optional<std::string> held;
  std::optional<std::string> someone_first;  // creates just before the next create()
};

struct Fixture {
  osm::testing::ManualClock clock;
  WallTime now = clock.wall_now();
  Made root = make_ca("root", now);
  Made middle = make_ca("middle", now, &root);
  Made low = make_ca("low", now, &middle, "critical,CA:TRUE,pathlen:0");

  // The refusal's text; nothing of the key, and OpenSSL's queue is empty.
  std::string refusal(const std::string& pem) const {
    const auto refused = make_local_issuer(pem, kDomain, clock);
    REQUIRE_FALSE(refused.ok());
    CHECK(ERR_peek_error() == 0);
    CHECK(refused.error().message.find("BEGIN") == std::string::npos);
    return refused.error().text();
  }
  void refuses(const std::string& pem, const std::string& reason) const {
    const std::string text = refusal(pem);
    CHECK_MESSAGE(text.find(reason) != std::string::npos, text);
  }
};

}  // namespace

TEST_SUITE("certificate: an operator's CA") {
  TEST_CASE("an intermediate signs, and its chain goes out with every leaf, without the root") {
    const Fixture f;
    const auto issuer = make_local_issuer(
        f.low.key_pem() + f.low.pem() + f.middle.pem() + f.root.pem(), kDomain, f.clock);
    REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
    CHECK((*issuer)->trust_bundle_pem() == f.root.pem());
    const auto issued = issue(**issuer, kBuyer, hours(48), {}, f.clock);
    REQUIRE_MESSAGE(issued.ok(), issued.error().text());
    const std::string& chain = issued->chain_pem;
    const std::string sent = f.low.pem() + f.middle.pem();
    CHECK(chain.size() > sent.size());
    CHECK(chain.substr(chain.size() - sent.size()) == sent);
    CHECK(chain.find(f.root.pem()) == std::string::npos);
  }

  TEST_CASE("a root of any key that is strong enough signs") {
    const Fixture f;
    for (const KeyParameters& key : {KeyParameters{}, KeyParameters{KeyType::kRsa, 2048},
                                     KeyParameters{KeyType::kRsa, 4096}}) {
      const Made root = make_ca("root", f.now, nullptr, "critical,CA:TRUE", key);
      const auto issuer = make_local_issuer(root.key_pem() + root.pem(), kDomain, f.clock);
      REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
      CHECK(issue(**issuer, kBuyer, hours(48), {}, f.clock).ok());
    }
    Made weak{openssl::Key(EVP_RSA_gen(1024)), {}};
    weak.certificate = certificate::testing::make_certificate(
        {.common_name = "weak",
         .extensions = {{"basicConstraints", "critical,CA:TRUE"},
                        {"keyUsage", "critical,keyCertSign"}},
         .not_before = f.now - hours(1),
         .not_after = f.now + hours(100)},
        *weak.key, nullptr);
    f.refuses(weak.key_pem() + weak.pem(), "key too weak");
  }

  TEST_CASE("a chain that is unordered, incomplete or inconsistent is refused with the reason") {
    const Fixture f;
    const std::string key = f.low.key_pem();
    f.refuses(key + f.middle.pem() + f.low.pem() + f.root.pem(),
              "put the signing certificate first");
    f.refuses(key + f.low.pem() + f.root.pem() + f.middle.pem(),
              "put the signing certificate first");
    f.refuses(key + f.low.pem(), "append the certificates up to the root");
    f.refuses(key + f.low.pem() + f.middle.pem(), "certificate 2 of 2");
    f.refuses(key + f.low.pem() + f.root.pem(), "append the certificates up to the root");
    f.refuses(f.middle.key_pem() + f.middle.pem() + f.root.pem() + make_ca("other", f.now).pem(),
              "with one root");
    f.refuses(f.root.key_pem() + f.low.pem() + f.middle.pem(), "does not belong");
    // The same name, another key: a forgery, not an issuer.
    f.refuses(f.middle.key_pem() + f.middle.pem() + make_ca("root", f.now).pem(),
              "certificate 1 of 2");
  }

  TEST_CASE("every certificate of a chain must be a CA, valid now, with room for those below it") {
    Fixture f;
    const Made leaf = make_ca("leaf", f.now, &f.root, "critical,CA:FALSE");
    f.refuses(leaf.key_pem() + leaf.pem() + f.root.pem(), "is not a CA");
    const Made below = make_ca("below", f.now, &f.low);
    f.refuses(below.key_pem() + below.pem() + f.low.pem() + f.middle.pem() + f.root.pem(),
              "allows 0 CAs below it (pathlen) and has 1");
    const std::string good = f.low.key_pem() + f.low.pem() + f.middle.pem() + f.root.pem();
    f.clock.set_wall(f.now + hours(24 * 365));
    f.refuses(good, "certificate-expired: certificate 1 of 3");
    f.clock.set_wall(f.now - hours(48));
    f.refuses(good, "is not valid yet: check this machine's clock");
  }

  TEST_CASE("every replica signs with an imported CA from then on") {
    const Fixture f;
    MemoryStore store;
    const PrivateKey pem(f.low.key_pem() + f.low.pem() + f.middle.pem() + f.root.pem());
    REQUIRE(import_ca({store, kDomain, f.clock}, pem).ok());
    CHECK(store.held == pem.pem());
    CHECK(import_ca({store, kDomain, f.clock}, pem).ok());  // a restart, another replica
    const auto issuer = load_or_create_ca({store, kDomain, f.clock});
    REQUIRE(issuer.ok());
    CHECK((*issuer)->trust_bundle_pem() == f.root.pem());
  }

  TEST_CASE("an import never replaces a CA, nor stores a wrong one") {
    const Fixture f;
    MemoryStore store;
    const PrivateKey pem(f.root.key_pem() + f.root.pem());
    const Made other = make_ca("other", f.now);

    const auto wrong =
        import_ca({store, kDomain, f.clock}, PrivateKey(other.key_pem() + f.root.pem()));
    CHECK(wrong.error().code == ErrorCode::kInvalidCertificate);
    CHECK_FALSE(store.held);

    store.someone_first = other.key_pem() + other.pem();
    const auto late = import_ca({store, kDomain, f.clock}, pem);
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::kAlreadyExists);
    CHECK(late.error().message.find("MeshRootCertificate") != std::string::npos);
    CHECK(store.held == other.key_pem() + other.pem());

    store.held = "broken";
    CHECK(import_ca({store, kDomain, f.clock}, pem).error().code == ErrorCode::kAlreadyExists);
    CHECK(store.held == "broken");
  }

  TEST_CASE("a known CA is loaded or imported, and no other takes its place") {
    const Fixture f;
    const Made other = make_ca("other", f.now);
    const KnownCa known{f.root.pem(), "the record"};
    MemoryStore store;
    const CaOptions options{store, kDomain, f.clock, known};
    const auto lost = [&](const Error& error, const std::string& problem) {
      CHECK(error.code == ErrorCode::kNotFound);
      CHECK_MESSAGE(error.message.find(problem) != std::string::npos, error.message);
      CHECK(error.message.find("restore it from a backup") != std::string::npos);
      CHECK(error.message.find("delete the record") != std::string::npos);
    };
    lost(load_or_create_ca(options).error(), "is gone");
    lost(import_ca(options, PrivateKey(other.key_pem() + other.pem())).error(),
         "the CA to import is another one");
    CHECK_FALSE(store.held);
    store.held = other.key_pem() + other.pem();
    lost(load_or_create_ca(options).error(), "was replaced by another CA");
    CHECK(store.held == other.key_pem() + other.pem());

    store.held.reset();
    // An intermediate of the known root is the known CA too.
    const PrivateKey pem(f.low.key_pem() + f.low.pem() + f.middle.pem() + f.root.pem());
    REQUIRE(import_ca(options, pem).ok());
    CHECK(load_or_create_ca(options).ok());
  }
}
