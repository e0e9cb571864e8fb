// A provider process for tests, inside of the test: serves provider.proto over real gRPC, keeps one
// state, and sends each stream what it lacks. One message per stream is on its way at a time, so a
// flood of changes is one set of names.
#pragma once

#include <doctest/doctest.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "openservicemesh/provider/v1/provider.pb.h"
#include "osm/values/endpoint.hpp"
#include "osm/values/proxy_id.hpp"
#include "osm/values/workload.hpp"

namespace osm::inline v1::testing {

namespace proto = openservicemesh::provider::v1;

inline void fill(proto::Endpoint& out, const ServiceName& service, const Endpoint& endpoint) {
  out.set_address(endpoint.address);
  out.set_port(number(endpoint.port));
  out.set_service_port(endpoint.service_port);
  out.set_service_account(endpoint.identity.ns == service.ns ? endpoint.identity.name
                                                             : endpoint.identity.str());
  if (endpoint.zone) out.set_zone(*endpoint.zone);
  if (endpoint.weight) out.set_weight(*endpoint.weight);
  if (!endpoint.healthy) out.set_healthy(false);
}

inline void add_service(proto::WatchResponse& message, const ServiceName& name,
                        const std::optional<std::vector<Endpoint>>& endpoints) {
  if (!endpoints) {
    auto& removed = *message.add_removed_services();
    removed.set_namespace_(name.ns);
    removed.set_name(name.name);
    return;
  }
  auto& service = *message.add_services();
  service.set_namespace_(name.ns);
  service.set_name(name.name);
  for (const Endpoint& endpoint : *endpoints) fill(*service.add_endpoints(), name, endpoint);
}

inline void add_workload(proto::WatchResponse& message, const WorkloadName& name,
                         const std::optional<Workload>& workload) {
  if (!workload) {
    auto& removed = *message.add_removed_workloads();
    removed.set_namespace_(name.ns);
    removed.set_name(name.name);
    return;
  }
  auto& out = *message.add_workloads();
  out.set_namespace_(name.ns);
  out.set_name(name.name);
  out.set_proxy_uuid(workload->proxy_id.str());
  out.set_service_account(workload->account.ns == name.ns ? workload->account.name
                                                          : workload->account.str());
  out.set_address(workload->address);
  for (const auto& [port, value] : workload->ports) (*out.mutable_ports())[port] = number(value);
  for (const auto& [label, value] : workload->labels) (*out.mutable_labels())[label] = value;
}

class ProviderServer {
 public:
  // `address` as gRPC has it: "unix:/path" or "127.0.0.1:0".
  explicit ProviderServer(
      std::string address,
      std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials())
      : address_(std::move(address)), credentials_(std::move(credentials)) {}
  ~ProviderServer() { stop(); }

  void start() {
    if (server_) return;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, credentials_, &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    door_ = std::make_unique<Door>(*this);
    builder.RegisterCallbackGenericService(door_.get());
    server_ = builder.BuildAndStart();
    REQUIRE(server_ != nullptr);
  }
  // Ends every stream, and listens no more.
  void stop() {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }
  int port() const { return port_; }

  // Sets the state, nullopt removes, and sends the change to every stream.
  void set(const ServiceName& name, std::optional<std::vector<Endpoint>> endpoints) {
    std::lock_guard lock(mutex_);
    for (auto& [stream, state] : streams_) state.services.insert(name);
    if (endpoints) {
      services_[name] = *std::move(endpoints);
    } else {
      services_.erase(name);
    }
    send_all();
  }
  void set(const WorkloadName& name, std::optional<Workload> workload) {
    std::lock_guard lock(mutex_);
    for (auto& [stream, state] : streams_) state.workloads.insert(name);
    if (workload) {
      workloads_[name] = *std::move(workload);
    } else {
      workloads_.erase(name);
    }
    send_all();
  }
  void set_health(bool healthy) {
    std::lock_guard lock(mutex_);
    healthy_ = healthy;
    for (auto& [stream, state] : streams_) state.heartbeat = true;
    send_all();
  }
  void send_heartbeat() {
    std::lock_guard lock(mutex_);
    for (auto& [stream, state] : streams_) state.heartbeat = true;
    send_all();
  }
  // The next complete lists lack their end, until it is set again.
  void complete_lists(bool complete) {
    std::lock_guard lock(mutex_);
    complete_ = complete;
  }
  // Sends these bytes in place of the first list.
  void send_raw(std::string bytes) {
    std::lock_guard lock(mutex_);
    raw_ = std::move(bytes);
  }
  // Ends every stream, and goes on listening.
  void end_streams() {
    std::lock_guard lock(mutex_);
    for (auto& [stream, state] : streams_)
      if (!std::exchange(state.finished, true)) stream->Finish(grpc::Status::OK);
  }
  // The last request of a controller.
  std::optional<proto::WatchRequest> request() const {
    std::lock_guard lock(mutex_);
    return request_;
  }
  std::size_t streams() const {
    std::lock_guard lock(mutex_);
    return streams_.size();
  }

 private:
  class Stream;
  // The rest that a stream lacks.
  struct State {
    bool asked = false;
    bool listing = true;  // the first list is not complete yet
    bool writing = false;
    bool finished = false;
    bool heartbeat = false;
    std::set<ServiceName> services;
    std::set<WorkloadName> workloads;
  };

  class Stream final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Stream(ProviderServer& server) : server_(server) { StartRead(&incoming); }
    void OnReadDone(bool ok) override {
      if (ok) server_.begin(*this);
    }
    void OnWriteDone(bool) override { server_.written(*this); }
    void OnCancel() override {
      if (server_.finish(*this)) Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override {
      server_.leave(*this);
      delete this;
    }
    grpc::ByteBuffer incoming, outgoing;

   private:
    ProviderServer& server_;
  };

  // State of one start: gRPC serves a generic service once.
  class Door final : public grpc::CallbackGenericService {
   public:
    explicit Door(ProviderServer& server) : server_(server) {}
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
      std::lock_guard lock(server_.mutex_);
      auto* stream = new Stream(server_);
      server_.streams_[stream];
      return stream;
    }

   private:
    ProviderServer& server_;
  };

  void begin(Stream& stream) {
    std::lock_guard lock(mutex_);
    std::vector<grpc::Slice> slices;
    std::string bytes;
    if (stream.incoming.Dump(&slices).ok())
      for (const grpc::Slice& slice : slices)
        bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    proto::WatchRequest request;
    if (request.ParseFromString(bytes)) request_ = request;
    State& state = streams_.at(&stream);
    state.asked = true;
    for (const auto& [name, endpoints] : services_) state.services.insert(name);
    for (const auto& [name, workload] : workloads_) state.workloads.insert(name);
    send(stream, state);
  }
  void written(Stream& stream) {
    std::lock_guard lock(mutex_);
    State& state = streams_.at(&stream);
    state.writing = false;
    send(stream, state);
  }
  bool finish(Stream& stream) {
    std::lock_guard lock(mutex_);
    return !std::exchange(streams_.at(&stream).finished, true);
  }
  void leave(Stream& stream) {
    std::lock_guard lock(mutex_);
    streams_.erase(&stream);
  }

  void send_all() {
    for (auto& [stream, state] : streams_) send(*stream, state);
  }
  // Precondition: the lock.
  void send(Stream& stream, State& state) {
    if (!state.asked || state.writing || state.finished) return;
    proto::WatchResponse message;
    // A first list comes in several messages.
    for (int i = 0; i < 20 && !state.services.empty(); ++i) {
      const ServiceName name = *state.services.begin();
      state.services.erase(state.services.begin());
      const auto at = services_.find(name);
      add_service(message, name, at == services_.end() ? std::nullopt : std::optional(at->second));
    }
    for (int i = 0; i < 20 && !state.workloads.empty(); ++i) {
      const WorkloadName name = *state.workloads.begin();
      state.workloads.erase(state.workloads.begin());
      const auto at = workloads_.find(name);
      add_workload(message, name,
                   at == workloads_.end() ? std::nullopt : std::optional(at->second));
    }
    const bool ends =
        state.listing && complete_ && state.services.empty() && state.workloads.empty();
    if (ends) {
      message.set_complete(true);
      state.listing = false;
    }
    const bool heartbeat = std::exchange(state.heartbeat, false);
    if (heartbeat || ends)
      message.set_health(healthy_ ? proto::HEALTH_HEALTHY : proto::HEALTH_UNHEALTHY);
    if (!heartbeat && message.ByteSizeLong() == 0) return;
    const grpc::Slice slice(raw_ ? *raw_ : message.SerializeAsString());
    stream.outgoing = grpc::ByteBuffer(&slice, 1);
    state.writing = true;
    stream.StartWrite(&stream.outgoing);
  }

  const std::string address_;
  const std::shared_ptr<grpc::ServerCredentials> credentials_;
  int port_ = 0;
  mutable std::recursive_mutex mutex_;
  std::map<ServiceName, std::vector<Endpoint>> services_;
  std::map<WorkloadName, Workload> workloads_;
  bool healthy_ = true;
  bool complete_ = true;
  std::optional<std::string> raw_;
  std::optional<proto::WatchRequest> request_;
  std::map<Stream*, State> streams_;
  std::unique_ptr<Door> door_;
  std::unique_ptr<grpc::Server> server_;  // last: its streams use the rest
};

}  // namespace osm::inline v1::testing
