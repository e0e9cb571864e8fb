// The mesh's CA in etcd: controllers on several machines share one root without a Kubernetes.
//
//   auto store = etcd::make_ca_store({.endpoints = {"https://10.0.0.1:2379"}, .io = ..., ...});
//   auto issuer = certificate::load_or_create_ca({.store = **store, ...});
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "osm/certificate/ca_store.hpp"
#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/result.hpp"
#include "osm/runtime/asio_executor.hpp"

namespace osm::inline v1::etcd {

// Which etcd, and how to log in there. Files are PEM and read anew for each connection.
struct CaStoreOptions {
  // "https://10.0.0.1:2379", port 2379 when it is left out. The first that answers counts.
  // "http://" is for addresses of this machine alone: the CA's key would cross the network.
  std::vector<std::string> endpoints;
  // Whoever may read it in etcd can speak for everybody in the mesh.
  std::string key = "/osm/ca";
  std::string ca_file{};           // whom to trust; empty: the system's roots
  std::string certificate_file{};  // who this is, with key_file; empty: nobody in particular
  std::string key_file{};
  // A user of etcd's own, who may read and write `key`. What speaks JSON to etcd cannot be one by
  // its certificate: https://etcd.io/docs/v3.4/op-guide/authentication/
  std::string user{};
  std::string password_file{};
  // What one endpoint is given to answer, connecting included.
  std::chrono::milliseconds deadline{5000};
  net::AsioExecutor& io;  // these outlive the store
  Executor& blocking;     // names are looked up there
};

// The CA is one value of etcd v3, reached through its JSON gateway (etcd 3.4 or later). It is
// created in one transaction that holds only while there is none: of replicas that race one
// creates, the others read.
// Failure: kInvalidArgument (an endpoint, the key, half of a pair of options), kUnreadableSource
// (a file), with the remedy. Thread: any. Blocking: reads files; connects when it is first asked.
OSM_API Result<std::unique_ptr<certificate::CaStore>> make_ca_store(CaStoreOptions options);

}  // namespace osm::inline v1::etcd
