// The sources behind this project's stores, as the stores' suite wants them.
#pragma once

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "etcd/object_keys.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/watch_server.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/spec/etcd_store.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/testing/store_conformance.hpp"
#include "spec/directory_fixture.hpp"

namespace osm::inline v1::testing {

namespace store_platform {

// A file for each object, in a directory that can be moved away.
class Directory final : public StorePlatform {
 public:
  Directory() { std::filesystem::create_directory(here()); }

  std::unique_ptr<ObjectStore> start(const Runtime& runtime) override {
    auto store = spec::make_directory_store(
        {.directory = here().string(), .watcher = watcher_, .runtime = runtime});
    REQUIRE(store.ok());
    executor_ = &runtime.executor;
    return *std::move(store);
  }
  void put(const Object& object) override {
    write(object.key, boost::json::serialize(*object.document));
  }
  void put_broken(const ObjectKey& key) override { write(key, "{not: [closed"); }
  void remove(const ObjectKey& key) override { std::filesystem::remove(file_of(key)); }
  void set_reachable(bool reachable) override {
    if (reachable == reachable_) return;
    std::filesystem::rename(directory(), reachable ? here() : away());
    reachable_ = reachable;
  }
  void pump() override {
    if (executor_ == nullptr || std::exchange(look_posted_, true)) return;
    executor_->post([this] {
      look_posted_ = false;
      while (watcher_.look()) continue;
    });
  }

 private:
  std::filesystem::path here() const { return temporary_.path() / "mesh"; }
  std::filesystem::path away() const { return temporary_.path() / "away"; }
  std::filesystem::path directory() const { return reachable_ ? here() : away(); }
  std::filesystem::path file_of(const ObjectKey& key) const {
    return directory() / (key.kind + '.' + key.ns + '.' + key.name + ".yaml");
  }
  // As careful writers do: complete, then renamed into place.
  void write(const ObjectKey& key, const std::string& text) const {
    const auto next = temporary_.path() / "next";
    std::ofstream(next, std::ios::trunc) << text;
    std::filesystem::rename(next, file_of(key));
  }

  osm::testing::TemporaryDirectory temporary_;
  spec::testing::ManualFdWatcher watcher_;
  Executor* executor_ = nullptr;
  bool look_posted_ = false;
  bool reachable_ = true;
};

// An API server in memory. It refuses what is no object.
class Kubernetes final : public StorePlatform {
 public:
  StoreTraits traits() const override { return {.broken = false}; }

  std::unique_ptr<ObjectStore> start(const Runtime& runtime) override {
    cluster_ = std::make_unique<Cluster>(runtime.executor);
    for (const auto& [key, document] : before_) write(key, document);
    set_reachable(reachable_);
    return kubernetes::make_store({.cluster = *cluster_, .runtime = runtime, .workloads = false});
  }
  void put(const Object& object) override {
    boost::json::object document = object.document->as_object();
    if (cluster_)
      write(object.key, document);
    else
      before_[object.key] = document;
  }
  void put_broken(const ObjectKey&) override {}
  void remove(const ObjectKey& key) override {
    cluster_->memory.remove(resource(key), key.ns, key.name);
  }
  void set_reachable(bool reachable) override {
    reachable_ = reachable;
    if (!cluster_) return;
    std::optional<Error> fault;
    if (!reachable) fault = Error{ErrorCode::kUnavailable, "connection refused"};
    cluster_->memory.set_list_fault(fault);
    cluster_->memory.set_get_fault(fault);
    cluster_->memory.set_watch_fault(fault);
    if (fault) cluster_->memory.end_watches(*fault);
  }

 private:
  struct Cluster final : kubernetes::Cluster {
    explicit Cluster(Executor& executor) : memory(executor) {}
    std::string server() const override { return "https://cluster"; }
    kubernetes::Api& api() override { return memory; }

    kubernetes_test::WatchServer memory;
  };
  static kubernetes::Resource resource(const ObjectKey& key) {
    return kubernetes::resource_of(*spec::find_kind(spec::mesh_kinds(), key.group_kind()));
  }
  void write(const ObjectKey& key, const boost::json::object& document) {
    cluster_->memory.put(resource(key), key.ns, key.name, document);
  }

  std::map<ObjectKey, boost::json::object> before_;
  std::unique_ptr<Cluster> cluster_;
  bool reachable_ = true;
};

// An etcd of two members in memory.
class Etcd final : public StorePlatform {
 public:
  Etcd() {
    client_.options.key = "/osm";
    client_.options.endpoints = {a_.url(), b_.url()};
  }
  std::unique_ptr<ObjectStore> start(const Runtime& runtime) override {
    auto store = etcd::make_object_store({.etcd = client_.options, .runtime = runtime});
    REQUIRE(store.ok());
    return *std::move(store);
  }
  void put(const Object& object) override {
    write(object.key, boost::json::serialize(*object.document));
  }
  void put_broken(const ObjectKey& key) override { write(key, "{not: [closed"); }
  void remove(const ObjectKey& key) override {
    const std::lock_guard lock(keys_->mutex);
    keys_->remove(*names_.key_of(key));
  }
  void set_reachable(bool reachable) override {
    for (etcd_test::FakeEtcd* member : {&a_, &b_}) {
      if (reachable) {
        member->set_fault({});
      } else {
        member->set_fault(etcd_test::FakeEtcd::refusal(503, 14, "etcdserver: no leader"));
        member->cut_watches();
      }
    }
  }

 private:
  void write(const ObjectKey& key, const std::string& text) {
    const std::lock_guard lock(keys_->mutex);
    keys_->put(*names_.key_of(key), base64(text), "");
  }

  const etcd::ObjectKeys names_{"/osm"};
  const std::shared_ptr<etcd_test::Keys> keys_ = std::make_shared<etcd_test::Keys>();
  etcd_test::FakeEtcd a_{keys_};
  etcd_test::FakeEtcd b_{keys_};
  etcd_test::ClientOptions client_{{}};
};

}  // namespace store_platform

}  // namespace osm::inline v1::testing
