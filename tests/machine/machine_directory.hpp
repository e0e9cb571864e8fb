// The files of a machine that has joined a mesh of the test's CA.
#pragma once

#include <chrono>
#include <string>

#include "lib/temporary_directory.hpp"
#include "net/tls_fixture.hpp"

namespace osm::inline v1::machine {

struct MachineDirectory : testing::TemporaryDirectory {
  net::TestCa ca;

  explicit MachineDirectory(std::chrono::seconds validity = std::chrono::hours(1)) {
    const auto proxy = ca.issue("DNS:web-1", validity);
    write("sds_cert.pem", proxy->chain_pem);
    write("sds_key.pem", proxy->private_key.pem());
    write("cacert.pem", ca.root_pem());
    write("bootstrap.yaml",
          "# Envoy's bootstrap for shop/web-1, written by a test\n"
          "cluster_name: osm-controller\n"
          "socket_address: {address: \"127.0.0.1\", port_value: 15128}\n"
          "matcher: {exact: \"spiffe://cluster.local/osm/controller\"}\n");
    write("validation_context_sds_secret.yaml",
          "    match_typed_subject_alt_names:\n"
          "    - {san_type: URI, matcher: {exact: \"spiffe://old.local/osm/controller\"}}\n");
  }
};

}  // namespace osm::inline v1::machine
