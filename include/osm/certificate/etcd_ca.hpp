// The mesh's CA in etcd: controllers on several machines share one root without Kubernetes.
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

// Endpoints and credentials of an etcd. Files are PEM and are read again for each connection.
struct CaStoreOptions {
  // "https://10.0.0.1:2379"; default port 2379. The store uses the first endpoint that answers.
  // "http://" is only accepted for addresses of this machine: the CA's key would cross the network.
  std::vector<std::string> endpoints;
  // Key of the CA in etcd. Anybody who may read it can issue certificates for the whole mesh.
  std::string key = "/osm/ca";
  std::string ca_file{};           // trusted roots; empty: the system's
  std::string certificate_file{};  // client certificate, with key_file; empty: none
  std::string key_file{};
  // An etcd user who may read and write `key`. JSON clients cannot authenticate by certificate:
  // https://etcd.io/docs/v3.4/op-guide/authentication/
  std::string user{};
  std::string password_file{};
  // Time for one endpoint to answer, connecting included.
  std::chrono::milliseconds deadline{5000};
  net::AsioExecutor& io;  // these outlive the store
  Executor& blocking;     // runs look-ups of names
};

// A store whose CA is one value of etcd v3, through its JSON gateway (etcd 3.4 or later). One
// transaction creates the value only if there is none: of replicas that race, one creates it and
// the others read it.
// Failure: kInvalidArgument (an endpoint, the key, half of a pair of options), kUnreadableSource (a
// file), with the remedy.
// Thread: any. Blocking: reads files; it connects at the first call.
OSM_API Result<std::unique_ptr<certificate::CaStore>> make_ca_store(CaStoreOptions options);

}  // namespace osm::inline v1::etcd
