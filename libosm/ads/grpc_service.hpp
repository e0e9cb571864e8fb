// The methods of the ADS server as one generic service. Authenticated streams of
// StreamAggregatedResources and DeltaAggregatedResources and calls of some unary methods go to the
// strand; every other method is UNIMPLEMENTED.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "ads/stream_host.hpp"
#include "osm/metrics.hpp"

namespace osm::inline v1::ads {

class GrpcStream;
class GrpcCall;

// A proxy has one stream, and a second one while the first ends. Streams and calls count until gRPC
// has released them. HTTP/2's own limit does not count those that are reset faster than they are
// released (rapid reset).
inline constexpr std::size_t kMaxStreamsPerCertificate = 16;

class GrpcService final : public grpc::CallbackGenericService {
 public:
  // `unary_methods`: paths of the unary methods. `host` is called on gRPC's threads, and outlives
  // the service.
  GrpcService(StreamHost& host, MetricsSink& metrics, std::set<std::string> unary_methods)
      : host_(host), metrics_(metrics), unary_methods_(std::move(unary_methods)) {}

  // Ends every stream and call, and refuses new ones. Precondition: no other code uses the streams
  // any more.
  void close_all(CloseCode code, const std::string& text);
  // Waits until gRPC has released all of them. Result: false if `timeout` passed first.
  bool wait_until_empty(std::chrono::milliseconds timeout);

  // gRPC has released this stream or call: its last callback calls this function.
  void leave(StreamId id);

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  grpc::ServerGenericBidiReactor* refuse(grpc::StatusCode status, std::string_view code,
                                         const std::string& text);

  struct Open {
    std::shared_ptr<GrpcStream> stream;  // or
    std::shared_ptr<GrpcCall> call;
    std::string holder;  // the certificate's identity
  };

  StreamHost& host_;
  MetricsSink& metrics_;
  const std::set<std::string> unary_methods_;
  std::mutex mutex_;
  std::condition_variable stream_gone_;
  bool closed_ = false;
  StreamId last_id_ = 0;
  std::map<StreamId, Open> open_;
  std::map<std::string, std::size_t> held_;  // number of them by holder
};

}  // namespace osm::inline v1::ads
