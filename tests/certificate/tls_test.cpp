// Issued certificates work in TLS handshakes, and wrong ones are refused.
#include <doctest/doctest.h>
#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <string>

#include "certificate/issuance.hpp"
#include "certificate/local_issuer.hpp"
#include "certificate/x509.hpp"
#include "osm/runtime/system.hpp"

using namespace osm;
using namespace osm::certificate;

namespace {

using Context = openssl::Handle<SSL_CTX, SSL_CTX_free>;
using Connection = openssl::Handle<SSL, SSL_free>;

struct Ca {
  explicit Ca(const Clock& c) : clock(c) {
    const PrivateKey root = make_root_pem(clock).value();
    issuer = make_local_issuer(root.pem(), TrustDomain("cluster.local"), clock).value();
  }
  Certificate issue(const std::string& account, Usage usage, KeyParameters key = {}) const {
    const Subject subject{CommonName(account + ".shop.cluster.local"),
                          SpiffeId("spiffe://cluster.local/ns/shop/sa/" + account), usage};
    return certificate::issue(*issuer, subject, std::chrono::hours(1), key, clock).value();
  }
  const Clock& clock;
  std::unique_ptr<Issuer> issuer;
};

// A context that proves itself with `own` and accepts peers under `roots` only.
Context context(const Certificate& own, const std::string& roots) {
  Context made(SSL_CTX_new(TLS_method()));
  const auto leaf = x509::parse_certificate(own.chain_pem).value();
  const auto key = x509::parse_key(own.private_key.pem()).value();
  const auto root = x509::parse_certificate(roots).value();
  REQUIRE(SSL_CTX_use_certificate(made.get(), leaf.get()) == 1);
  REQUIRE(SSL_CTX_use_PrivateKey(made.get(), key.get()) == 1);
  REQUIRE(SSL_CTX_check_private_key(made.get()) == 1);
  REQUIRE(X509_STORE_add_cert(SSL_CTX_get_cert_store(made.get()), root.get()) == 1);
  SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return made;
}

struct Outcome {
  bool client_done = false;
  bool server_done = false;
  long client_verdict = X509_V_OK;  // what the client thinks of the server
  long server_verdict = X509_V_OK;
  std::string name_seen_by_server;
  std::string message_seen_by_server;
};

Outcome shake_hands(const Context& client_context, const Context& server_context) {
  const openssl::CleanErrorQueue clean;
  const Connection client(SSL_new(client_context.get()));
  const Connection server(SSL_new(server_context.get()));
  BIO* client_end = nullptr;
  BIO* server_end = nullptr;
  REQUIRE(BIO_new_bio_pair(&client_end, 0, &server_end, 0) == 1);
  SSL_set_bio(client.get(), client_end, client_end);
  SSL_set_bio(server.get(), server_end, server_end);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  for (int step = 0; step < 10; ++step) {
    (void)SSL_do_handshake(client.get());
    (void)SSL_do_handshake(server.get());
  }
  Outcome outcome{.client_done = SSL_is_init_finished(client.get()) == 1,
                  .server_done = SSL_is_init_finished(server.get()) == 1,
                  .client_verdict = SSL_get_verify_result(client.get()),
                  .server_verdict = SSL_get_verify_result(server.get()),
                  .name_seen_by_server = {},
                  .message_seen_by_server = {}};
  if (outcome.client_done && outcome.server_done) {
    char name[256] = {};
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(server.get())),
                              NID_commonName, name, sizeof name);
    outcome.name_seen_by_server = name;
    char text[16];
    REQUIRE(SSL_write(client.get(), "hello", 5) == 5);
    const int size = SSL_read(server.get(), text, sizeof text);
    if (size > 0) outcome.message_seen_by_server.assign(text, static_cast<std::size_t>(size));
  }
  return outcome;
}

}  // namespace

TEST_SUITE("certificate over TLS") {
  TEST_CASE("two workloads of one mesh trust each other and see each other's names") {
    const SystemClock clock;
    const Ca ca(clock);
    const std::string roots = ca.issuer->trust_bundle_pem();
    for (const KeyType type : {KeyType::kEcdsaP256, KeyType::kRsa}) {
      const Outcome outcome =
          shake_hands(context(ca.issue("buyer", Usage::kWorkload, {type, 2048}), roots),
                      context(ca.issue("store", Usage::kWorkload), roots));
      CHECK(outcome.client_done);
      CHECK(outcome.server_done);
      CHECK(outcome.name_seen_by_server == "buyer.shop.cluster.local");
      CHECK(outcome.message_seen_by_server == "hello");
    }
  }

  TEST_CASE("a proxy reaches the control plane, and neither can take the other's part") {
    const SystemClock clock;
    const Ca ca(clock);
    const std::string roots = ca.issuer->trust_bundle_pem();
    const Context proxy = context(ca.issue("proxy", Usage::kProxy), roots);
    const Context controller = context(ca.issue("controller", Usage::kController), roots);
    CHECK(shake_hands(proxy, controller).message_seen_by_server == "hello");
    const Outcome swapped = shake_hands(controller, proxy);
    CHECK_FALSE(swapped.client_done);
    CHECK(swapped.client_verdict == X509_V_ERR_INVALID_PURPOSE);
    const Outcome impostor =
        shake_hands(controller, context(ca.issue("store", Usage::kWorkload), roots));
    CHECK_FALSE(impostor.server_done);
    CHECK(impostor.server_verdict == X509_V_ERR_INVALID_PURPOSE);
  }

  TEST_CASE("a certificate of another CA with the same names is refused on both sides") {
    const SystemClock clock;
    const Ca ours(clock);
    const Ca theirs(clock);
    const Context honest =
        context(ours.issue("store", Usage::kWorkload), ours.issuer->trust_bundle_pem());
    // It trusts us; we must not trust it.
    const Context forged =
        context(theirs.issue("buyer", Usage::kWorkload), ours.issuer->trust_bundle_pem());
    const Outcome as_client = shake_hands(forged, honest);
    CHECK_FALSE(as_client.server_done);
    CHECK(as_client.server_verdict != X509_V_OK);
    const Outcome as_server = shake_hands(honest, forged);
    CHECK_FALSE(as_server.client_done);
    CHECK(as_server.client_verdict != X509_V_OK);
  }

  TEST_CASE("a failed call of this room does not break a handshake of this thread") {
    const SystemClock clock;
    const Ca ca(clock);
    const std::string roots = ca.issuer->trust_bundle_pem();
    const Context client = context(ca.issue("buyer", Usage::kWorkload), roots);
    const Context server = context(ca.issue("store", Usage::kWorkload), roots);
    const Connection idle(SSL_new(client.get()));
    BIO* near = nullptr;
    BIO* far = nullptr;
    REQUIRE(BIO_new_bio_pair(&near, 0, &far, 0) == 1);
    const openssl::Bio owned(far);
    SSL_set_bio(idle.get(), near, near);
    SSL_set_connect_state(idle.get());
    const int status = SSL_do_handshake(idle.get());
    CHECK_FALSE(make_local_issuer("broken", TrustDomain("cluster.local"), clock).ok());
    // With an error left in the queue this would say SSL_ERROR_SSL: a broken connection.
    CHECK(SSL_get_error(idle.get(), status) == SSL_ERROR_WANT_READ);
    CHECK(shake_hands(client, server).server_done);
  }
}
