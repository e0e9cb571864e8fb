// Every backend keeps the contract of osm/runtime/backend.hpp, and keeps its texts and CAs in the
// places that its header names. So does a directory whose records, CA and board are in etcd.
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/upkeep_fixture.hpp"
#include "lib/record_contract.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/etcd/backend.hpp"
#include "osm/kubernetes/backend.hpp"
#include "osm/runtime/backend.hpp"
#include "osm/testing/manual_executor.hpp"
#include "spec/directory_fixture.hpp"

using namespace osm;
using namespace osm::testing;

namespace {

const CaPlace kOwnCa{kOwnRoot, "osm-ca-bundle"};
const CaPlace kNextCa{"next", "next-ca"};

// One machine, one etcd and one API server.
struct BackendRig : kubernetes_test::UpkeepFixture {
  BackendRig() {
    etcd.keys().now = [this] { return clock.steady_now(); };
  }

  Backend in_directory(const std::string& replica) {
    auto made = make_directory_backend({.directory = folder.file("mesh"),
                                        .state_dir = folder.str(),
                                        .watcher = watcher,
                                        .runtime = still,
                                        .replica = replica});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    return *std::move(made);
  }
  Backend in_etcd(const std::string& replica, const std::string& objects_key = "/osm") {
    auto made = etcd::make_backend({.etcd = client.options,
                                    .objects_key = objects_key,
                                    .objects = still,
                                    .board = runtime,
                                    .replica = replica});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    return *std::move(made);
  }
  Backend on_kubernetes(const std::string& replica) {
    return kubernetes::make_backend(
        {.board = {.cluster = cluster, .runtime = runtime, .replica = replica}, .objects = still});
  }
  // Plurals of the kinds that the store of objects asks the API server for.
  std::set<std::string> kinds_asked(bool injects) {
    std::set<std::string> asked;
    api.set_fault([&](const std::string& call) -> Status {
      const auto from = call.find(' ') + 1;
      asked.insert(call.substr(from, call.find(' ', from) - from));
      return {};
    });
    const Backend backend =
        kubernetes::make_backend({.board = {.cluster = cluster, .runtime = runtime, .replica = "a"},
                                  .objects = runtime,
                                  .injects = injects});
    executor.run_for(std::chrono::seconds(9));
    CHECK(backend.objects->has_synced());
    api.set_fault({});
    return asked;
  }
  // The objects of a directory, and the rest in etcd.
  Backend mixed(const std::string& replica) {
    Backend own = in_directory(replica);
    Backend shared = in_etcd(replica, "");
    CHECK_FALSE(shared.objects);
    CHECK_FALSE(shared.last_mesh_config);
    CHECK_FALSE(shared.writer);
    shared.objects_in = own.objects_in;
    shared.objects = std::move(own.objects);
    shared.last_mesh_config = std::move(own.last_mesh_config);
    return shared;
  }

  static std::string load(const Backend& backend, const CaPlace& place) {
    const auto opened = backend.ca_store(place);
    REQUIRE_MESSAGE(opened.ok(), opened.error().text());
    const auto pem = (*opened)->load();
    REQUIRE_MESSAGE(pem.ok(), pem.error().text());
    return *pem ? (*pem)->pem() : "";
  }
  void create(const Backend& backend, const CaPlace& place) const {
    const auto opened = backend.ca_store(place);
    REQUIRE_MESSAGE(opened.ok(), opened.error().text());
    const auto made = certificate::load_or_create_ca(
        {.store = **opened, .trust_domain = TrustDomain("cluster.local"), .clock = clock});
    REQUIRE_MESSAGE(made.ok(), made.error().text());
  }

  // `open` makes the backend of a replica of the same mesh.
  void check_contract(const std::function<Backend(const std::string& replica)>& open,
                      bool is_alone = false) {
    for (const auto record : {&Backend::root_rotation, &Backend::last_mesh_config,
                              &Backend::join_tokens, &Backend::drained_machines})
      check_record_contract([&] {
        Backend backend = open("a");
        return std::move(backend.*record);
      });

    const Backend a = open("a"), b = open("b");
    CHECK(a.replica == "a");
    CHECK(a.objects);
    CHECK_FALSE(a.objects_in.empty());
    CHECK(a.objects_in == b.objects_in);
    CHECK(a.read_every == std::chrono::seconds(a.objects_in == "kubernetes" ? 10 : 1));

    CHECK(load(a, kOwnCa).empty());
    create(a, kOwnCa);
    const std::string own = load(a, kOwnCa);
    CHECK_FALSE(own.empty());
    CHECK(load(b, kOwnCa) == own);
    CHECK(load(b, kNextCa).empty());
    create(b, kNextCa);
    CHECK_FALSE(load(a, kNextCa).empty());
    CHECK(load(a, kNextCa) != own);
    CHECK(load(a, kOwnCa) == own);

    const auto board = a.join(), other = b.join();
    REQUIRE_MESSAGE(board.ok(), board.error().text());
    REQUIRE_MESSAGE(other.ok(), other.error().text());
    CHECK((*board == nullptr) == is_alone);
    if (!*board) return;
    // replica_board_conformance_test.cpp has the contract of boards.
    CHECK((*board)->publish("contract", "one").ok());
    executor.run_for(std::chrono::seconds(9));
    CHECK((*other)->read("contract").value() ==
          std::map<std::string, std::string>{{"a", "one"}, {"b", ""}});
  }
  bool has_key(const std::string& key) {
    const std::lock_guard lock(etcd.keys().mutex);
    return etcd.keys().values.contains(key);
  }
  bool has_file(const std::string& name) const {
    return std::filesystem::exists(folder.file(name));
  }

  // Stores of objects do nothing: store_conformance_test.cpp has their contract.
  ManualExecutor unused{clock};
  const Runtime still{unused, unused, clock, rng, log, metrics};
  TemporaryDirectory folder;
  spec::testing::ManualFdWatcher watcher;
  etcd_test::FakeEtcd etcd;
  etcd_test::ClientOptions client{{etcd.url()}};
};

TEST_SUITE("Backend") {
  TEST_CASE_FIXTURE(BackendRig, "a directory keeps the contract, in files of its own") {
    check_contract([this](const auto& replica) { return in_directory(replica); }, true);
    const Backend backend = in_directory("a");
    CHECK(backend.objects_in == folder.file("mesh"));
    CHECK_FALSE(backend.writer);
    for (const char* name : {"rotation.json", "mesh-config.json", "join-tokens.json",
                             "drained-machines.json", "ca/ca.pem", "roots/next/ca.pem"})
      CHECK_MESSAGE(has_file(name), name);
  }

  TEST_CASE_FIXTURE(BackendRig, "etcd keeps the contract, in keys of its own") {
    check_contract([this](const auto& replica) { return in_etcd(replica); });
    const Backend backend = in_etcd("a");
    CHECK(backend.objects_in == "etcd:/osm");
    CHECK(backend.writer);
    for (const char* key : {"/osm/ca", "/osm/ca/roots/next", "/osm/ca/rotation",
                            "/osm/ca/join-tokens", "/osm/ca/drained-machines", "/osm/mesh-config"})
      CHECK_MESSAGE(has_key(key), key);
    CHECK(in_etcd("a").join().value()->confirmed_at());
  }

  TEST_CASE_FIXTURE(BackendRig, "Kubernetes keeps the contract, in ConfigMaps and Secrets") {
    check_contract([this](const auto& replica) { return on_kubernetes(replica); });
    const Backend backend = on_kubernetes("a");
    CHECK(backend.objects_in == "kubernetes");
    CHECK_FALSE(backend.writer);
    for (const char* name :
         {"osm-root-rotation", "osm-last-mesh-config", "osm-join-tokens", "osm-drained-machines"})
      CHECK_MESSAGE(!api.at(kubernetes::kConfigMaps, "osm-system", name).empty(), name);
    for (const char* name : {"osm-ca-bundle", "next-ca"})
      CHECK_MESSAGE(!api.at(kubernetes::kSecrets, "osm-system", name).empty(), name);
  }

  TEST_CASE_FIXTURE(BackendRig, "a directory with the rest in etcd keeps the contract") {
    check_contract([this](const auto& replica) { return mixed(replica); });
    CHECK(mixed("a").objects_in == folder.file("mesh"));
    for (const char* key : {"/osm/ca", "/osm/ca/roots/next", "/osm/ca/rotation",
                            "/osm/ca/join-tokens", "/osm/ca/drained-machines"})
      CHECK_MESSAGE(has_key(key), key);
    CHECK(has_file("mesh-config.json"));
    CHECK_FALSE(has_file("rotation.json"));
    // Each has objects of its own.
    CHECK_FALSE(mixed("a").join().value()->confirmed_at());
  }
}

TEST_SUITE("kubernetes::make_backend") {
  TEST_CASE_FIXTURE(BackendRig, "the store of an injector reads four kinds and no workloads") {
    CHECK(kinds_asked(true) ==
          std::set<std::string>{"denylists", "meshconfigs", "meshrootcertificates", "namespaces"});
    const auto all = kinds_asked(false);
    for (const char* kind : {"pods", "endpointslices", "traffictargets"})
      CHECK_MESSAGE(all.contains(kind), kind);
  }

  TEST_CASE_FIXTURE(BackendRig, "the place of a CA has a Secret") {
    const auto opened = on_kubernetes("a").ca_store({.root = kOwnRoot});
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().code == ErrorCode::kInvalidArgument);
    CHECK(opened.error().message == "CaPlace.secret: required on Kubernetes");
  }

  TEST_CASE_FIXTURE(BackendRig, "the board of an injector is for root rotations, and never leads") {
    const Backend backend = kubernetes::make_backend(
        {.board = {.cluster = cluster, .runtime = runtime, .replica = "injector"},
         .objects = still,
         .injects = true});
    const auto board = backend.join();
    REQUIRE_MESSAGE(board.ok(), board.error().text());
    const Subscription standing = (*board)->stand({});
    executor.run_for(std::chrono::seconds(9));
    CHECK_FALSE((*board)->leads());
    CHECK((*board)->publish("roots", "one").ok());
    CHECK((*board)->publish("other", "two").error().code == ErrorCode::kInvalidArgument);
  }
}

}  // namespace
