// The C interface keeps its rules of ownership and lifetimes, also with older or newer headers;
// errors name object, field and remedy; no key is in an answer, an error or the log.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/c/osm_c.h"

using osm::testing::TemporaryDirectory;

namespace {

constexpr const char* kShop = R"(
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {openservicemesh.io/monitored-by: osm}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: server, namespace: shop}
---
apiVersion: workload.openservicemesh.io/v1alpha1
kind: VirtualMachine
metadata: {name: server, namespace: shop, labels: {host: server}}
spec: {address: 10.200.0.12, serviceAccount: server}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: shop}
spec: {clusterIP: 10.96.0.12, selector: {host: server}, ports: [{name: http, port: 14001}]}
)";

constexpr const char* kBadTarget = R"(
apiVersion: access.smi-spec.io/v1alpha3
kind: TrafficTarget
metadata: {name: bad, namespace: shop}
spec: {destination: {kind: ServiceAccount, name: server, namespace: elsewhere}}
)";

// The result of a call: "" for success, else "<code>: <message>".
class Said {
 public:
  Said() = default;
  ~Said() { osm_error_free(error_); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;
  osm_error** out() { return &error_; }
  std::string text() {
    if (error_ == nullptr) return {};
    std::string said = osm_error_code(error_);
    said += std::string(": ") + osm_error_message(error_);
    osm_error_free(error_);
    error_ = nullptr;
    return said;
  }

 private:
  osm_error* error_ = nullptr;
};

struct Options {
  Options() { osm_options_set_ads_address(get, "127.0.0.1:0"); }
  ~Options() { osm_options_free(get); }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  osm_options* get = osm_options_new();
};

// A mesh in memory, or as the options say.
struct Running {
  explicit Running(const Options& options = {}) {
    Said said;
    get = osm_mesh_start(options.get, said.out());
    REQUIRE_MESSAGE(get != nullptr, said.text());
  }
  ~Running() { CHECK(osm_mesh_stop(get, 5000, nullptr) == 0); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  std::string apply(const char* yaml) const {
    Said said;
    const int result = osm_mesh_apply(get, yaml, said.out());
    std::string text = said.text();
    CHECK((result == 0) == text.empty());
    return text;
  }
  std::string ask(const char* target) const {
    Said said;
    char* answer = osm_mesh_get(get, target, said.out());
    if (answer == nullptr) return said.text();
    std::string text = answer;
    osm_text_free(answer);
    return text;
  }
  // {name: content}; empty with the error in `said`.
  std::vector<std::pair<std::string, std::string>> files(const osm_machine* machine,
                                                         std::string& said_text) const {
    Said said;
    osm_bootstrap* made = osm_mesh_bootstrap(get, machine, said.out());
    said_text = said.text();
    std::vector<std::pair<std::string, std::string>> out;
    while (const osm_file* file = osm_bootstrap_file(made, out.size()))
      out.emplace_back(file->name, file->content);
    osm_bootstrap_free(made);
    return out;
  }

  osm_mesh* get = nullptr;
};

osm_machine server() {
  osm_machine machine{};
  machine.size = sizeof machine;
  machine.ns = "shop";
  machine.name = "server";
  machine.controller = "10.200.0.1:15128";
  machine.directory = "/etc/osm/server";
  return machine;
}

std::string refused_start(const Options& options) {
  Said said;
  CHECK(osm_mesh_start(options.get, said.out()) == nullptr);
  return said.text();
}

bool contains(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE("no '" << std::string(part) << "' in: " << text);
  return false;
}

}  // namespace

TEST_SUITE("c interface") {
  TEST_CASE("the library's version is the header's") { CHECK(osm_c_version() == OSM_C_VERSION); }

  TEST_CASE("functions that free accept null, and a null error is exhausted memory") {
    osm_error_free(nullptr);
    osm_text_free(nullptr);
    osm_options_free(nullptr);
    osm_bootstrap_free(nullptr);
    CHECK(osm_mesh_stop(nullptr, 0, nullptr) == 0);
    CHECK(osm_bootstrap_file(nullptr, 0) == nullptr);
    osm_options_set_ads_address(nullptr, "127.0.0.1:0");
    CHECK(std::string(osm_error_code(nullptr)) == "internal");
    CHECK(std::string(osm_error_message(nullptr)) == "memory is exhausted");
  }

  TEST_CASE("an argument that is null is named, also to callers that want no error") {
    Said said;
    CHECK(osm_mesh_start(nullptr, said.out()) == nullptr);
    CHECK(said.text() == "invalid-argument: options is null");
    CHECK(osm_mesh_apply(nullptr, "", said.out()) == -1);
    CHECK(said.text() == "invalid-argument: mesh is null");
    CHECK(osm_mesh_apply(nullptr, "", nullptr) == -1);
    const Running mesh;
    CHECK(osm_mesh_delete(mesh.get, nullptr, said.out()) == -1);
    CHECK(said.text() == "invalid-argument: yaml is null");
    CHECK(osm_mesh_get(mesh.get, nullptr, said.out()) == nullptr);
    CHECK(said.text() == "invalid-argument: target is null");
  }

  TEST_CASE("success sets the error to null") {
    const Running mesh;
    auto* stale = reinterpret_cast<osm_error*>(1);
    CHECK(osm_mesh_apply(mesh.get, kShop, &stale) == 0);
    CHECK(stale == nullptr);
  }

  TEST_CASE("options that are invalid are refused, and the message names their setter") {
    Options options;
    SUBCASE("the trust domain") {
      osm_options_set_trust_domain(options.get, "Not A Domain");
      CHECK(contains(refused_start(options), "invalid-argument: osm_options_set_trust_domain()"));
      osm_options_set_trust_domain(options.get, nullptr);
      const Running by_default(options);
    }
    SUBCASE("the address") {
      osm_options_set_ads_address(options.get, "nowhere");
      CHECK(contains(refused_start(options), "invalid-argument: osm_options_set_ads_address()"));
    }
    SUBCASE("the level of the log") {
      osm_options_set_log(options.get, 2, "loud");
      CHECK(contains(refused_start(options), "osm_options_set_log(): level 'loud'"));
    }
    SUBCASE("two CAs") {
      osm_options_set_ca_directory(options.get, "ca");
      osm_options_set_ca_pem(options.get, "pem");
      CHECK(contains(refused_start(options), "set one of them"));
    }
    SUBCASE("a CA that is none") {
      osm_options_set_ca_pem(options.get, "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n");
      const std::string said = refused_start(options);
      CHECK(contains(said, "invalid-certificate: osm_options_set_ca_pem()"));
      CHECK(said.find("c2VjcmV0") == std::string::npos);
    }
    SUBCASE("a port that is taken") {
      const Running other;
      osm_options_set_ads_address(options.get, osm_mesh_ads_address(other.get));
      CHECK(contains(refused_start(options), "unavailable: "));
    }
  }

  TEST_CASE("a text that is no object is refused with its line") {
    const Running mesh;
    CHECK(contains(mesh.apply("kind: [\n"), "invalid-syntax: yaml:"));
    CHECK(contains(mesh.apply("apiVersion: v1\nkind: Gateway\nmetadata: {name: x}\n"),
                   "unknown-kind: "));
    CHECK(contains(mesh.apply(""), "invalid-argument: "));
  }

  TEST_CASE("an object that the mesh would leave out is refused by name, with all of its text") {
    const Running mesh;
    const std::string said = mesh.apply((std::string(kShop) + "---" + kBadTarget).c_str());
    CHECK(contains(said, "TrafficTarget shop/bad"));
    CHECK(contains(said, "spec.destination.namespace"));
    CHECK(contains(mesh.ask("/v1/objects?kind=Service"), R"("objects":[])"));
  }

  TEST_CASE("machines have their rules, and other kinds of workloads are refused") {
    const Running mesh;
    const std::string machine =
        "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: VirtualMachine\n"
        "metadata: {name: server, namespace: shop}\nspec: {address: nowhere, serviceAccount: "
        "server}\n";
    const std::string said = mesh.apply(machine.c_str());
    CHECK(contains(said, "VirtualMachine shop/server"));
    CHECK(contains(said, "spec.address"));
    const std::string resource =
        "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: DNSResource\n"
        "metadata: {name: servers, namespace: shop}\nspec: {name: servers.test, serviceAccount: "
        "server}\n";
    CHECK(contains(mesh.apply(resource.c_str()), "this mesh resolves no DNSResource"));
  }

  TEST_CASE("objects are applied and deleted, and one that is not there is named") {
    const Running mesh;
    CHECK(mesh.apply(kShop) == "");
    CHECK(mesh.apply(kShop) == "");  // unchanged
    CHECK(contains(mesh.ask("/v1/objects?kind=Service"), R"("clusterIP":"10.96.0.12")"));
    Said said;
    CHECK(osm_mesh_wait_applied(mesh.get, kShop, 5000, said.out()) == 0);
    const char* const service =
        "apiVersion: v1\nkind: Service\nmetadata: {name: server, namespace: shop}\n";
    CHECK(osm_mesh_delete(mesh.get, service, said.out()) == 0);
    CHECK(contains(mesh.ask("/v1/objects?kind=Service"), R"("objects":[])"));
    CHECK(osm_mesh_delete(mesh.get, service, said.out()) == -1);
    CHECK(contains(said.text(), "not-found: Service shop/server"));
    CHECK(osm_mesh_wait_applied(mesh.get, kBadTarget, 30000, said.out()) == -1);
    CHECK(contains(said.text(), "not-found: "));
  }

  TEST_CASE("a directory is read and followed, and is not written to") {
    const TemporaryDirectory directory;
    const std::string path = directory.file("mesh");
    Options options;
    osm_options_set_mesh_directory(options.get, path.c_str());
    const Running mesh(options);
    Said said;
    CHECK(osm_mesh_wait_ready(mesh.get, 200, said.out()) == -1);
    const std::string late = said.text();
    CHECK(contains(late, "deadline-exceeded: the mesh is not ready: it waits for "));
    CHECK(contains(late, path));
    std::filesystem::create_directory(path);
    directory.write("mesh/shop.yaml", kShop);
    CHECK(osm_mesh_wait_ready(mesh.get, 30000, said.out()) == 0);
    CHECK(osm_mesh_wait_applied(mesh.get, kShop, 30000, said.out()) == 0);
    CHECK(contains(mesh.apply(kShop), "edit the files in " + path));
  }

  TEST_CASE("answers are those of the admin API, and errors have its codes") {
    const Running mesh;
    CHECK(osm_mesh_wait_ready(mesh.get, 30000, nullptr) == 0);
    CHECK(mesh.ask("/v1/problems") == R"({"problems":[]})");
    CHECK(mesh.ask("/v1/proxies") == R"({"proxies":[],"expected":[],"participants":[]})");
    CHECK(contains(mesh.ask("/metrics"), "# HELP osm_mesh_snapshots_total Snapshots of "));
    CHECK(contains(mesh.ask("/v1/nothing"), "not-found: "));
    CHECK(contains(mesh.ask("nothing"), "invalid-argument: "));
    CHECK(contains(mesh.ask("/v1/policy/check?source=x"), "invalid-argument: source 'x'"));
  }

  TEST_CASE("a machine gets its files, the key first") {
    const Running mesh;
    CHECK(mesh.apply(kShop) == "");
    std::string said;
    const osm_machine machine = server();
    const auto files = mesh.files(&machine, said);
    REQUIRE(said == "");
    REQUIRE(files.size() > 3);
    CHECK(files[0].first == "sds_key.pem");
    CHECK(contains(files[0].second, "PRIVATE KEY"));
    bool bootstrap = false;
    for (std::size_t i = 1; i < files.size(); ++i) {
      CHECK(files[i].second.find("PRIVATE KEY") == std::string::npos);
      if (files[i].first == "bootstrap.yaml") bootstrap = contains(files[i].second, "10.200.0.1");
    }
    CHECK(bootstrap);
    CHECK(contains(mesh.ask("/v1/proxies"), R"("claimed":false)"));
    CHECK(mesh.ask("/v1/certificates").find("PRIVATE KEY") == std::string::npos);
  }

  TEST_CASE("a machine that cannot join is named with the member and the remedy") {
    const Running mesh;
    CHECK(mesh.apply(kShop) == "");
    std::string said;
    osm_machine machine = server();
    SUBCASE("unknown") {
      machine.name = "nobody";
      CHECK(mesh.files(&machine, said).empty());
      CHECK(contains(said, "not-found: the mesh has no VirtualMachine shop/nobody"));
    }
    SUBCASE("without a directory") {
      machine.directory = nullptr;
      CHECK(mesh.files(&machine, said).empty());
      CHECK(said == "invalid-argument: machine: directory is null");
    }
    SUBCASE("with a relative directory") {
      machine.directory = "etc";
      CHECK(mesh.files(&machine, said).empty());
      CHECK(contains(said, "invalid-argument: "));
    }
    SUBCASE("with a request of somebody else") {
      machine.request_pem = "-----BEGIN CERTIFICATE REQUEST-----\n";
      CHECK(mesh.files(&machine, said).empty());
      CHECK(contains(said, "invalid-argument: "));
    }
  }

  TEST_CASE("a machine of another header is read as far as both know it") {
    struct Newer {
      osm_machine known;
      const char* more;
    };
    const Running mesh;
    CHECK(mesh.apply(kShop) == "");
    std::string said;
    Newer newer{server(), nullptr};
    newer.known.size = sizeof newer;
    CHECK(!mesh.files(&newer.known, said).empty());
    newer.more = "unknown";
    CHECK(mesh.files(&newer.known, said).empty());
    CHECK(contains(said, "has members that this library does not know"));
    osm_machine older = server();
    older.size = offsetof(osm_machine, request_pem);
    older.request_pem = "beyond its size";
    CHECK(!mesh.files(&older, said).empty());
    older.size = 0;
    CHECK(mesh.files(&older, said).empty());
    CHECK(contains(said, "set it to sizeof(osm_machine)"));
  }

  TEST_CASE("files and errors outlive the mesh that they came from") {
    osm_error* error = nullptr;
    osm_bootstrap* files = nullptr;
    {
      const Running mesh;
      CHECK(mesh.apply(kShop) == "");
      const osm_machine machine = server();
      files = osm_mesh_bootstrap(mesh.get, &machine, nullptr);
      REQUIRE(files != nullptr);
      CHECK(osm_mesh_get(mesh.get, "/v1/nothing", &error) == nullptr);
    }
    CHECK(contains(osm_bootstrap_file(files, 0)->content, "PRIVATE KEY"));
    CHECK(std::string(osm_error_code(error)) == "not-found");
    osm_bootstrap_free(files);
    osm_error_free(error);
  }

  TEST_CASE("a CA is made once in its directory, or given as PEM, and is the same then") {
    const TemporaryDirectory directory;
    const auto root_of = [](const Options& options) {
      const Running mesh(options);
      CHECK(mesh.apply(kShop) == "");
      std::string said;
      const osm_machine machine = server();
      for (const auto& [name, text] : mesh.files(&machine, said))
        if (name == "cacert.pem") return text;
      FAIL("no file with the roots");
      return std::string();
    };
    Options on_disk;
    osm_options_set_ca_directory(on_disk.get, directory.file("ca").c_str());
    const std::string root = root_of(on_disk);
    CHECK(root_of(on_disk) == root);
    Options given;
    osm_options_set_ca_pem(given.get, directory.read("ca/ca.pem").c_str());
    CHECK(root_of(given) == root);
    CHECK(root_of(Options()) != root);
  }

  TEST_CASE("meshes of one process share nothing, and calls run concurrently") {
    const Running one;
    const Running two;
    CHECK(std::string(osm_mesh_ads_address(one.get)) != osm_mesh_ads_address(two.get));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        for (int n = 0; n < 20; ++n) {
          const std::string name = "a" + std::to_string(i) + "-" + std::to_string(n);
          const std::string yaml =
              "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + name +
              ", namespace: shop}\n";
          if (osm_mesh_apply(one.get, yaml.c_str(), nullptr) != 0) std::abort();
          osm_text_free(osm_mesh_get(one.get, "/v1/problems", nullptr));
        }
      });
    for (std::thread& thread : threads) thread.join();
    const std::string accounts = one.ask("/v1/objects?kind=ServiceAccount");
    CHECK(contains(accounts, "a3-19"));
    CHECK(contains(accounts, "a0-0"));
    CHECK(contains(two.ask("/v1/objects?kind=ServiceAccount"), R"("objects":[])"));
  }

  TEST_CASE("lines of the log go to the descriptor, which stays open") {
    const TemporaryDirectory directory;
    std::FILE* log = std::fopen(directory.file("log").c_str(), "w");
    {
      Options options;
      osm_options_set_log(options.get, fileno(log), "debug");
      const Running mesh(options);
      CHECK(mesh.apply(kShop) == "");
      const osm_machine machine = server();
      std::string said;
      mesh.files(&machine, said);
    }
    CHECK(std::fputs("still open\n", log) >= 0);
    CHECK(std::fclose(log) == 0);
    const std::string lines = directory.read("log");
    CHECK(contains(lines, "proxy certificate issued for a machine"));
    CHECK(lines.find("PRIVATE KEY") == std::string::npos);
    CHECK(contains(lines, "still open"));
  }
}
