// A call of ours that fails leaves nothing in its thread's queue of OpenSSL errors, which gRPC
// would take for the failure of its next handshake there (docs/security.md, threat 25).
#include <doctest/doctest.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "ads/grpc_client.hpp"
#include "ads/peer.hpp"
#include "cert_manager/signer.hpp"
#include "certificate/issuance.hpp"
#include "certificate/local_issuer.hpp"
#include "certificate/made_ca.hpp"
#include "lib/run.hpp"
#include "net/tls.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/certificate/request.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "vault/ca_chain.hpp"

using namespace osm;
using namespace osm::certificate;
using std::chrono::hours;

namespace {

const TrustDomain kDomain{"cluster.local"};
const Subject kBuyer{CommonName("buyer.shop.cluster.local"),
                     SpiffeId("spiffe://cluster.local/ns/shop/sa/buyer"), Usage::kWorkload};

std::string block(const std::string& label, const std::string& content) {
  return "-----BEGIN " + label + "-----\n" + content + "\n-----END " + label + "-----\n";
}
const std::string kNotDer = block("CERTIFICATE", "AAAA");
const std::string kNotBase64 = block("CERTIFICATE", "????");

// A server that shakes hands with whoever its CA certified.
class Server : grpc::CallbackGenericService {
 public:
  Server(const Certificate& own, const std::string& trust_bundle_pem) {
    grpc::SslServerCredentialsOptions tls(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = trust_bundle_pem;
    tls.pem_key_cert_pairs.push_back({own.private_key.pem(), own.chain_pem});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    REQUIRE(server_);
  }
  ~Server() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A request whose key is no point of the curve.
std::string off_the_curve(const std::string& request_pem) {
  const openssl::Bio in(BIO_new_mem_buf(request_pem.data(), static_cast<int>(request_pem.size())));
  char* name = nullptr;
  char* header = nullptr;
  unsigned char* der = nullptr;
  long size = 0;
  REQUIRE(PEM_read_bio(in.get(), &name, &header, &der, &size) == 1);
  std::string bytes(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
  const std::size_t point = bytes.find(std::string("\x03\x42\x00\x04", 4));
  REQUIRE(point != bytes.npos);
  bytes[point + 40] = static_cast<char>(bytes[point + 40] ^ 1);
  const openssl::Bio out(BIO_new(BIO_s_mem()));
  REQUIRE(PEM_write_bio(out.get(), name, "", reinterpret_cast<unsigned char*>(bytes.data()), size) >
          0);
  OPENSSL_free(name);
  OPENSSL_free(header);
  OPENSSL_free(der);
  char* text = nullptr;
  const long length = BIO_get_mem_data(out.get(), &text);
  return {text, static_cast<std::size_t>(length)};
}

struct NoStore final : CaStore {
  std::string name() const override { return "nowhere"; }
  Result<std::optional<PrivateKey>> load() override { return std::optional<PrivateKey>(); }
  Status create(const PrivateKey&) override { return Error{ErrorCode::kStorage, "nowhere"}; }
};

struct World {
  SystemClock clock;
  PrivateKey root = make_root_pem(clock).value();
  std::unique_ptr<Issuer> issuer = make_local_issuer(root.pem(), kDomain, clock).value();
  Certificate own = issue(*issuer, kBuyer, hours(1), {}, clock).value();
  KeyAndRequest asked = make_request(kBuyer).value();
  certificate::testing::Made other_ca = certificate::testing::make_ca("another", clock.wall_now());
  NoStore store;

  osm::testing::ManualClock manual;
  osm::testing::ManualExecutor executor{manual};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{osm::testing::seed()};
  std::unique_ptr<Manager> manager =
      make_manager({.issuer = make_local_issuer(root.pem(), kDomain, clock).value(),
                    .runtime = {executor, executor, clock, rng, log, metrics}});

  bool answer_fails(const std::string& chain, const std::string& bundle) const {
    return !check_answer({kBuyer, asked.request_pem, chain, bundle, hours(48)}, clock).ok();
  }
};

struct Call {
  std::string name;
  std::function<bool(World&)> fails;
};

const std::vector<Call> kCertificateCalls{
    {"check_request: cut",
     [](World& w) { return !check_request(kBuyer, w.asked.request_pem.substr(0, 200)).ok(); }},
    {"check_request: no DER",
     [](World&) { return !check_request(kBuyer, block("CERTIFICATE REQUEST", "AAAA")).ok(); }},
    {"check_request: no point of the curve",
     [](World& w) { return !check_request(kBuyer, off_the_curve(w.asked.request_pem)).ok(); }},
    {"certify_request",
     [](World& w) {
       return !w.manager->certify_request(kBuyer, off_the_curve(w.asked.request_pem), hours(1))
                   .ok();
     }},
    {"sign: no request",
     [](World& w) {
       return !w.issuer->sign({kBuyer, "AAAA", hours(1)}).ok();
     }},
    {"sign: no point of the curve",
     [](World& w) {
       return !w.issuer->sign({kBuyer, off_the_curve(w.asked.request_pem), hours(1)}).ok();
     }},
    {"check_answer: no DER",
     [](World& w) { return w.answer_fails(kNotDer, w.issuer->trust_bundle_pem()); }},
    {"check_answer: no base64",
     [](World& w) { return w.answer_fails(kNotBase64, w.issuer->trust_bundle_pem()); }},
    {"check_answer: another CA's",
     [](World& w) {
       const auto chain = w.issuer->sign({kBuyer, w.asked.request_pem, hours(1)}).value();
       return w.answer_fails(chain, w.other_ca.pem());
     }},
    {"check_answer: broken roots",
     [](World& w) {
       const auto chain = w.issuer->sign({kBuyer, w.asked.request_pem, hours(1)}).value();
       return w.answer_fails(chain, kNotDer);
     }},
    {"make_local_issuer: no PEM",
     [](World& w) { return !make_local_issuer("broken", kDomain, w.clock).ok(); }},
    {"make_local_issuer: an encrypted key",
     [](World& w) {
       return !make_local_issuer(block("ENCRYPTED PRIVATE KEY", "AAAA"), kDomain, w.clock).ok();
     }},
    {"make_local_issuer: another key",
     [](World& w) {
       return !make_local_issuer(w.asked.key.pem() + w.other_ca.pem(), kDomain, w.clock).ok();
     }},
    {"make_local_issuer: no CA",
     [](World& w) {
       return !make_local_issuer(w.own.private_key.pem() + w.own.chain_pem, kDomain, w.clock).ok();
     }},
    {"import_ca",
     [](World& w) {
       return !import_ca({w.store, kDomain, w.clock}, PrivateKey(block("PRIVATE KEY", "AAAA")))
                   .ok();
     }},
};

const std::vector<Call> kOtherCalls{
    {"identify_peer",
     [](World&) {
       return !ads::identify_peer({kDomain},
                                  {.uris = {"spiffe://cluster.local/osm/proxy/"
                                            "11111111-1111-4111-8111-111111111111/shop/buyer"},
                                   .common_name = "11111111-1111-4111-8111-111111111111.buyer.shop",
                                   .pem = kNotDer,
                                   .address = "ipv4:10.0.0.7:41234"})
                   .ok();
     }},
    {"read_ca_chain", [](World&) { return !vault::read_ca_chain(kNotDer).ok(); }},
    {"fingerprint_of", [](World&) { return !vault::fingerprint_of(kNotDer).ok(); }},
    {"find_signer: none", [](World&) { return !cert_manager::find_signer(kNotDer, kNotDer).ok(); }},
    {"find_signer: another CA",
     [](World& w) { return !cert_manager::find_signer(w.own.chain_pem, w.other_ca.pem()).ok(); }},
    {"check_client_ca", [](World&) { return !net::tls::check_client_ca(kNotDer).ok(); }},
    {"make_server_context",
     [](World& w) { return !net::tls::make_server_context(w.own, kNotDer).ok(); }},
};

// A handshake of gRPC whose client's side is worked on by this thread, in here.
bool shakes_hands(const Server& server, const Certificate& own,
                  const std::string& trust_bundle_pem) {
  const auto channel = ads_test::channel(server.address(), trust_bundle_pem, &own);
  return channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10));
}

void check(const std::vector<Call>& calls) {
  World world;
  const std::string roots = world.issuer->trust_bundle_pem();
  const Server server(world.own, roots);
  REQUIRE(shakes_hands(server, world.own, roots));
  for (const Call& call : calls) {
    CAPTURE(call.name);
    CHECK(call.fails(world));
    CHECK(ERR_peek_error() == 0);
    CHECK(shakes_hands(server, world.own, roots));
  }
}

}  // namespace

TEST_SUITE("security.errors") {
  TEST_CASE("certificates: failures do not affect the thread's next handshake") {
    check(kCertificateCalls);
  }
  TEST_CASE("peers, Vault, cert-manager, TLS: failures do not affect the next handshake") {
    check(kOtherCalls);
  }
}
