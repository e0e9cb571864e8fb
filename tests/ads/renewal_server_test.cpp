// The renewal call answers proxies of the mesh only, within bounds.
//
// The unary method of the server as a machine meets it: real gRPC over real mutual TLS.
#include <doctest/doctest.h>
#include <grpcpp/generic/generic_stub.h>

#include <future>

#include "ads/grpc_service.hpp"
#include "ads/server_world.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using osm::testing::wait_until;
using translate_test::kClient;

namespace {

using Response = openservicemesh::certificate::v1::RenewCertificateResponse;
using Done = std::function<void(ads::RenewalAnswer)>;

struct World : ServerWorld {
  std::mutex mutex;
  std::vector<Done> waiting;  // for an answer
  bool slow = false;

  explicit World(bool renews = true) {
    snapshots.publish(mesh.next());
    ads::AdsServerDependencies borrowed = dependencies();
    if (renews)
      borrowed.renew_certificate = [this](ads::RenewalQuestion question, Done done) {
        answer(question, std::move(done));
      };
    start(options(), borrowed);
  }
  ~World() { server.reset(); }  // it calls answer() until then

  void answer(const ads::RenewalQuestion& question, Done done) {
    const std::lock_guard lock(mutex);
    if (slow) return waiting.push_back(std::move(done));
    Response response;
    response.set_spiffe_id(question.peer.identity.id.str());
    response.set_certificate_chain_pem(question.request.request_pem());
    done(response);
  }
  std::size_t held() {
    const std::lock_guard lock(mutex);
    return waiting.size();
  }
};

// One call that is under way.
class Caller {
 public:
  Caller(World& world, const CertificatePtr& certificate, const std::string& pem,
         std::chrono::milliseconds patience = 20s)
      : stub_(world.connect(certificate)) {
    request_.set_request_pem(pem);
    context_.set_deadline(std::chrono::system_clock::now() + patience);
    stub_.UnaryCall(&context_, ads::kRenewMethod, {}, &request_, &response,
                    [this](grpc::Status status) { ended_.set_value(std::move(status)); });
  }
  ~Caller() {
    context_.TryCancel();
    if (status_.valid()) status_.wait();
  }
  grpc::Status status() { return status_.get(); }
  bool is_over() const { return status_.wait_for(0s) == std::future_status::ready; }
  void leave() { context_.TryCancel(); }

  Response response;

 private:
  grpc::TemplatedGenericStub<ads::RenewalRequest, Response> stub_;
  grpc::ClientContext context_;
  ads::RenewalRequest request_;
  std::promise<grpc::Status> ended_;
  std::future<grpc::Status> status_ = ended_.get_future();
};

}  // namespace

TEST_SUITE("ads::GrpcCall") {
  TEST_CASE("a distrusted certificate is not renewed on an old connection") {
    World world;
    world.secrets.set_trusts_peers(
        Error{ErrorCode::kInvalidCertificate, "no root that the mesh trusts now"});
    Caller caller(world, world.client_certificate, "a request");
    CHECK(caller.status().error_code() == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(caller.response.certificate_chain_pem().empty());
  }

  TEST_CASE("a proxy is answered as whom its certificate says, beside its stream") {
    World world;
    AdsClient stream(world.connect(world.client_certificate));
    stream.ask(XdsType::kCluster);
    stream.take(XdsType::kCluster);
    Caller caller(world, world.client_certificate, "a request");
    const grpc::Status status = caller.status();
    REQUIRE_MESSAGE(status.ok(), status.error_message());
    CHECK(caller.response.spiffe_id() == kClientId.str());
    CHECK(caller.response.certificate_chain_pem() == "a request");
    // The stream is the one it was: it was neither superseded nor counted as another proxy's.
    stream.ask(XdsType::kSecret, {"root-cert"});
    stream.take(XdsType::kSecret, {"root-cert"});
    CHECK(world.metrics.sum("osm_streams_ended_total") == 0);
  }

  TEST_CASE("a caller without a proxy certificate of this mesh is refused") {
    World world;
    const TestCa other(world.clock);
    for (const CertificatePtr& stranger : {CertificatePtr(), other.proxy(kClientId, kClient)})
      CHECK(Caller(world, stranger, "x").status().error_code() == grpc::StatusCode::UNAVAILABLE);
    for (const CertificatePtr& wrong : {world.ca.workload(kClient), world.ca.controller(),
                                        world.ca.proxy(kClientId, {"client", "other"})}) {
      const grpc::Status status = Caller(world, wrong, "x").status();
      // A server's certificate does not even pass the handshake.
      CHECK((status.error_code() == grpc::StatusCode::PERMISSION_DENIED ||
             status.error_code() == grpc::StatusCode::UNAVAILABLE));
    }
  }

  TEST_CASE("a request of more than 32 kB is refused, and the server goes on") {
    World world;
    CHECK(Caller(world, world.client_certificate, std::string(40'000, 'x')).status().error_code() ==
          grpc::StatusCode::INVALID_ARGUMENT);
    CHECK(Caller(world, world.client_certificate, "a request").status().ok());
  }

  TEST_CASE("without a renewal callback the method is unimplemented") {
    World world(false);
    CHECK(Caller(world, world.client_certificate, "").status().error_code() ==
          grpc::StatusCode::UNIMPLEMENTED);
  }

  TEST_CASE("calls of one certificate are counted until they are over, and one that is left ends") {
    World world;
    world.slow = true;
    std::vector<std::unique_ptr<Caller>> callers;
    const auto call = [&] {
      callers.push_back(std::make_unique<Caller>(world, world.client_certificate, ""));
    };
    for (std::size_t i = 0; i < ads::kMaxStreamsPerCertificate; ++i) call();
    REQUIRE(wait_until([&] { return world.held() == ads::kMaxStreamsPerCertificate; }));
    CHECK(Caller(world, world.client_certificate, "").status().error_code() ==
          grpc::StatusCode::RESOURCE_EXHAUSTED);
    callers.front()->leave();
    CHECK(callers.front()->status().error_code() == grpc::StatusCode::CANCELLED);
    // Each call is refused or held.
    CHECK(wait_until([&] {
      call();
      REQUIRE(wait_until([&] {
        return callers.back()->is_over() || world.held() > ads::kMaxStreamsPerCertificate;
      }));
      return world.held() > ads::kMaxStreamsPerCertificate;
    }));
    // Clients that left are answered too, without effect.
    const std::lock_guard lock(world.mutex);
    for (const Done& done : world.waiting) done(Response());
    CHECK(callers.at(1)->status().ok());
  }

  TEST_CASE("shutdown ends an unanswered call, and a later answer is ignored") {
    World world;
    world.slow = true;
    Caller caller(world, world.client_certificate, "a request");
    REQUIRE(wait_until([&] { return world.held() == 1; }));
    CHECK(world.server->shutdown(20s).ok());
    CHECK(caller.status().error_code() == grpc::StatusCode::UNAVAILABLE);
    world.server.reset();
    world.waiting.at(0)(Response());
  }
}
