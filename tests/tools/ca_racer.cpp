// One of many processes that want the mesh's CA at the same instant. When its standard input ends
// it loads or creates the CA, and says which one it is.
//
//   ca_racer directory PATH
//   ca_racer etcd URL KEY [CA_FILE CERTIFICATE_FILE KEY_FILE]
//   ca_racer secret KUBECONFIG NAMESPACE NAME
#include <chrono>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/certificate/etcd_ca.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/capturing_sinks.hpp"

namespace {

using namespace osm;

struct Racer {
  Result<std::unique_ptr<certificate::Issuer>> load(const std::vector<std::string>& words) {
    if (words.size() == 2 && words[0] == "directory") {
      return certificate::load_or_create_directory_ca(
          {.directory = words[1], .trust_domain = domain, .clock = clock});
    }
    std::unique_ptr<certificate::CaStore> store;
    if (words.size() >= 3 && words[0] == "etcd") {
      const bool files = words.size() == 6;
      OSM_TRY(store, etcd::make_ca_store({.endpoints = {words[1]},
                                          .key = words[2],
                                          .ca_file = files ? words[3] : "",
                                          .certificate_file = files ? words[4] : "",
                                          .key_file = files ? words[5] : "",
                                          .deadline = std::chrono::seconds(20),
                                          .io = io.executor(),
                                          .blocking = blocking.executor()}));
    } else if (words.size() == 4 && words[0] == "secret") {
      OSM_TRY(cluster, kubernetes::connect({.kubeconfig = words[1],
                                            .io = io.executor(),
                                            .runtime = {io.executor(), blocking.executor(), clock,
                                                        rng, log, metrics}}));
      store = kubernetes::make_ca_store(*cluster, words[2], words[3]);
    } else {
      return Error{ErrorCode::kInvalidArgument, "ca_racer: the header of its source has the usage"};
    }
    return certificate::load_or_create_ca(
        {.store = *store, .trust_domain = domain, .clock = clock});
  }

  const TrustDomain domain{"cluster.local"};
  SystemClock clock;
  RandomRng rng;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  net::Threads io{1};
  net::Threads blocking{1};
  std::unique_ptr<kubernetes::Cluster> cluster;
};

}  // namespace

int main(int argc, char** argv) {
  Racer racer;
  std::cout << "ready" << std::endl;
  std::cin.ignore(std::numeric_limits<std::streamsize>::max());
  const auto issuer = racer.load({argv + 1, argv + argc});
  if (!issuer.ok()) {
    std::cerr << issuer.error().text() << '\n';
    return 1;
  }
  std::cout << (*issuer)->id() << std::endl;
  return 0;
}
