// The mesh behind the C interface: everything that a host in C++ wires by hand, in one object.
// osm/c/osm_c.h has the contract of each call.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "osm/certificate/manager.hpp"
#include "osm/certificate/secret_bytes.hpp"
#include "osm/control_plane.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/log.hpp"
#include "osm/net/http.hpp"
#include "osm/object_store.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::inline v1::inject {
class Validator;
}
namespace osm::inline v1::vm {
class VmProvider;
}

namespace osm::inline v1::c {

class MemoryStore;

// Values of the setters, as they were given.
struct MeshOptions {
  std::string mesh_directory{};  // empty: objects in memory
  std::string ads_address = "0.0.0.0:15128";
  std::string ca_directory{};
  SecretBytes ca_pem{};
  std::string trust_domain = "cluster.local";
  int log_fd = -1;  // negative: no log
  std::string log_level = "info";
};

// A machine that joins; empty texts are the defaults of osm_machine.
struct Machine {
  std::string ns;
  std::string name;
  std::string controller;
  std::string directory;
  std::string request_pem;
  std::uint32_t proxy_uid = 0;
};

// One file of a machine, which may be the key.
struct MachineFile {
  std::string name;
  unsigned mode = 0600;
  bool proxys = true;
  SecretBytes content;
};

// Discards everything.
class NoLog final : public LogSink {
 public:
  bool enabled(LogLevel /*level*/) const override { return false; }
  void write(LogLevel /*level*/, std::string_view /*message*/,
             std::span<const LogField> /*fields*/) override {}
};

// Thread: any, concurrently, except for stop(). Constructed top to bottom, destroyed bottom to top.
class Mesh {
 public:
  static Result<std::unique_ptr<Mesh>> start(const MeshOptions& options);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const std::string& ads_address() const { return ads_address_; }
  Status wait_ready(std::chrono::milliseconds timeout) const;
  Status apply(std::string_view yaml) const { return change("apply", yaml); }
  Status remove(std::string_view yaml) const { return change("delete", yaml); }
  Status wait_applied(std::string_view yaml, std::chrono::milliseconds timeout) const;
  Result<std::string> get(std::string_view target) const;
  Result<std::vector<MachineFile>> bootstrap(const Machine& machine) const;
  Status stop(std::chrono::milliseconds deadline);

 private:
  explicit Mesh(const MeshOptions& options, LogLevel least);
  Status open_objects(const MeshOptions& options);
  Status open_certificates(const MeshOptions& options);
  Status serve(const MeshOptions& options);

  // The admin API's answer. Failure: the error in it.
  Result<std::string> ask(const net::Request& request) const;
  Status change(const std::string& verb, std::string_view yaml) const;

  NoLog no_log_;
  OwnRuntime own_;
  Runtime runtime_;
  MemoryStore* memory_ = nullptr;  // the store, unless its objects are in a directory
  std::unique_ptr<ObjectStore> store_;
  std::unique_ptr<MeshSpec> spec_;
  std::unique_ptr<vm::VmProvider> machines_;
  std::unique_ptr<certificate::Manager> manager_;
  std::unique_ptr<ControlPlane> control_plane_;
  std::unique_ptr<inject::Validator> validator_;
  net::Handler admin_;
  std::string ads_address_;
};

}  // namespace osm::inline v1::c
