// Golden meshes translate to the recorded resources, and a real Envoy accepts them all.
//
// Golden meshes: tests/golden/<case>/in.yaml, as a user writes it, and beside it one folder per
// machine with what its proxy is sent. tools/golden writes them.
#include <cstdlib>
#include <set>

#include "catalog/mesh_builder.hpp"
#include "certificate/issuance.hpp"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "lib/places.hpp"
#include "osm/certificate/directory_ca.hpp"
#include "osm/runtime/system.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "translate/real_envoy.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

namespace fs = std::filesystem;
const fs::path kGolden = osm::testing::source_dir() / "tests/golden";
const TrustDomain kDomain("cluster.local");

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  return (std::stringstream() << in.rdbuf()).str();
}

std::vector<fs::path> cases() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(kGolden)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  REQUIRE_FALSE(out.empty());
  return out;
}

// As a controller reads it, but from memory.
Mesh mesh_of(const fs::path& golden) {
  testing::MemoryObjectStore store;
  testing::CapturingLog log;
  testing::CapturingMetrics metrics;
  const auto put = store.put_yaml(content_of(golden / "in.yaml"), (golden / "in.yaml").string());
  REQUIRE_MESSAGE(put.ok(), put.error().text());
  const auto spec = spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  const auto machines = vm::make_vm_provider({store, *spec, kDomain, log, metrics});
  catalog::MeshBuilder builder(*spec, {{machines.get(), true}}, {machines.get()}, kDomain);
  const auto snapshot = builder.build();
  REQUIRE(snapshot);
  for (const Problem& problem : *snapshot->problems) MESSAGE(problem.text());
  Mesh mesh;
  mesh.snapshot = *snapshot;
  return mesh;
}

// Keys and times differ from run to run: what golden secrets show is their shape.
certificate::Certificate specimen() {
  certificate::Certificate out;
  out.chain_pem = "<chain>";
  out.private_key = certificate::PrivateKey("<private key>");
  return out;
}

std::string text_of(const std::vector<translate::EncodedResource>& resources) {
  envoy::service::discovery::v3::DiscoveryResponse response;
  for (const auto& resource : resources)
    REQUIRE(response.add_resources()->ParseFromString(resource.any));
  const auto json = translate::to_json(response, true);
  REQUIRE(json);
  return *json;
}

std::string file_name(XdsType type) {
  std::string name(xds_type_text(type));
  for (char& c : name) c = static_cast<char>(std::tolower(c));
  return name + ".json";
}

void compare(const fs::path& file, const std::string& text, std::set<fs::path>& read) {
  read.insert(file);
  if (std::getenv("OSM_UPDATE_GOLDEN") != nullptr) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  CHECK_MESSAGE(text == content_of(file), file.string(), " differs; tools/golden writes it anew");
}

}  // namespace

TEST_SUITE("translate golden") {
  TEST_CASE(
      "every mesh gives every proxy exactly the resources on file, and no file is left over") {
    std::set<fs::path> read;
    for (const fs::path& golden : cases()) {
      CAPTURE(golden.filename().string());
      const Mesh mesh = mesh_of(golden);
      read.insert(golden / "in.yaml");
      CHECK_FALSE(mesh.snapshot.workloads.empty());
      for (const auto& entry : mesh.snapshot.workloads) {
        const auto of = translate::class_of(mesh.snapshot, entry->workload);
        const auto folder = golden / (entry->workload.name.ns + '.' + entry->workload.name.name);
        for (const XdsType type : kXdsTypes) {
          std::vector<translate::EncodedResource> resources;
          for (const auto& input : mesh.inputs(of, type)) resources.push_back(input->encode());
          if (type == XdsType::kSecret) resources = secrets_of(specimen(), "<roots>");
          compare(folder / file_name(type), text_of(resources), read);
        }
      }
    }
    for (const auto& entry : fs::recursive_directory_iterator(kGolden))
      if (entry.is_regular_file())
        CHECK_MESSAGE(read.count(entry.path()) == 1, entry.path().string(), " is read by no test");
  }

  TEST_CASE("a real Envoy accepts every resource of every golden proxy and warms it all") {
    TemporaryDirectory directory;
    SystemClock clock;
    auto ca = certificate::load_or_create_directory_ca({directory.file("ca"), kDomain, clock});
    REQUIRE(ca.ok());
    for (const fs::path& golden : cases()) {
      const Mesh mesh = mesh_of(golden);
      for (const auto& entry : mesh.snapshot.workloads) {
        const std::string proxy = golden.filename().string() + " " + entry->workload.name.str();
        CAPTURE(proxy);
        const auto of = translate::class_of(mesh.snapshot, entry->workload);
        certificate::Subject subject{CommonName("golden"), spiffe_id(kDomain, of.identity),
                                     certificate::Usage::kWorkload};
        const auto own = certificate::issue(**ca, subject, std::chrono::hours(1), {}, clock);
        REQUIRE(own.ok());
        RealEnvoy envoy(mesh, of, *own, (*ca)->trust_bundle_pem(),
                        {{"\"port_value\":15001", "\"port_value\":0"},
                         {"\"port_value\":15003", "\"port_value\":0"},
                         // Nobody knows that name here, which Envoy counts as a failed update.
                         {"jaeger.osm-system.svc.cluster.local", "localhost"}});
        CHECK(envoy.accepted_everything());
      }
    }
  }
}
