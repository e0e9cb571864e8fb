// A real Envoy accepts the bootstrap of a pod, and only the key file holds the key.
#include "inject/pod_bootstrap.hpp"

#include <doctest/doctest.h>

#include <string>

#include "inject/pod_cases.hpp"
#include "inject/run.hpp"
#include "lib/places.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

using inject_test::golden_pod;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Writes the files where `directory` stands for /etc/envoy, with key material that Envoy can read.
void write_bootstrap(const testing::TemporaryDirectory& directory,
                     const inject_test::PodCase& pod) {
  for (BootstrapFile file : inject_test::bootstrap_files(pod.patched())) {
    for (std::size_t at = 0; (at = file.content.find("/etc/envoy", at)) != std::string::npos;)
      file.content.replace(at, 10, directory.str());
    directory.write(file.name, file.content);
  }
  const auto openssl = testing::run(
      "cd '" + directory.str() +
      "' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 "
      "-subj /CN=test -keyout sds_key.pem -out sds_cert.pem && cp sds_cert.pem cacert.pem");
  REQUIRE_MESSAGE(openssl.status == 0, openssl.output);
}

}  // namespace

TEST_SUITE("inject::pod_bootstrap") {
  TEST_CASE("Envoy accepts every golden bootstrap without a warning") {
    for (const std::string& name : inject_test::golden_pods()) {
      CAPTURE(name);
      const testing::TemporaryDirectory directory;
      write_bootstrap(directory, golden_pod(name));
      const auto envoy = testing::run(testing::envoy() + " -c '" + directory.str() +
                                      "/bootstrap.yaml' --mode validate --disable-hot-restart "
                                      "--drain-time-s 30 --drain-strategy immediate");
      CHECK_MESSAGE(envoy.status == 0, envoy.output);
      CHECK_MESSAGE(!contains(envoy.output, "][warning]"), envoy.output);
      CHECK_MESSAGE(!contains(envoy.output, "eprecat"), envoy.output);
    }
  }

  TEST_CASE("the controller is the osm namespace's, its identity pinned, the node the pod's") {
    const std::string yaml = inject_test::bootstrap_yaml(golden_pod("plain").patched());
    CHECK(contains(yaml,
                   "address: \"osm-controller.osm-system.svc.cluster.local\", port_value: 15128"));
    CHECK(contains(yaml, "exact: \"spiffe://cluster.local/osm/controller\""));
    CHECK(contains(yaml, "  id: " + inject_test::kProxy.str() + ".shop\n"));
    CHECK(contains(yaml, "  cluster: \"bookstore.shop\"\n"));
  }

  TEST_CASE("the controller's name has the domain of the cluster's DNS") {
    const std::string yaml =
        inject_test::bootstrap_yaml(golden_pod("plain").patched(), "example.internal");
    CHECK(contains(yaml, "address: \"osm-controller.osm-system.svc.example.internal\""));
  }

  TEST_CASE("nothing is served before the mesh has answered, not even probes") {
    const std::string yaml = inject_test::bootstrap_yaml(golden_pod("plain").patched());
    CHECK(contains(yaml, "cds_config: {resource_api_version: V3, initial_fetch_timeout: 0s, ads"));
    CHECK(contains(yaml, "lds_config: {resource_api_version: V3, initial_fetch_timeout: 0s, ads"));
  }

  TEST_CASE("only the key file holds the key") {
    for (const BootstrapFile& file : inject_test::bootstrap_files(golden_pod("probes").patched()))
      CHECK_MESSAGE(contains(file.content, "the key") == (file.name == "sds_key.pem"), file.name);
  }
}
