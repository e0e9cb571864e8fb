// The streams of a replica, and their places: at most one stream serves a proxy certificate. Only
// further streams of the same gRPC library may stand beside it (docs/adr/0065).
//
// Thread: every function on the strand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ads/class_table.hpp"
#include "ads/peer.hpp"
#include "ads/proxy_stream.hpp"
#include "ads/session.hpp"
#include "base/maps.hpp"
#include "model/mesh_snapshot.hpp"
#include "osm/clock.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::ads {

struct Stream {
  // Kind of its proxy, as its first request says.
  enum class Kind { kUnheard, kEnvoy, kLibrary };

  // Progress with the resources of one type.
  struct Step {
    bool kept = false;       // holds everything that its class holds
    std::uint64_t left = 0;  // if not: the newest generation with which it did
  };

  struct PendingChange {
    SteadyTime since = SteadyTime::max();  // time of its announcement; max(): there is none
    std::uint64_t generation = 0;          // has it
  };

  StreamId id = 0;
  std::shared_ptr<ProxyStream> transport;
  Peer peer;
  std::optional<Session> session;  // set at admission
  ProxyClassPtr proxy_class;
  std::shared_ptr<const model::WorkloadEntry> workload;  // set by the table
  Subscription wait;                                     // for an unknown workload
  Subscription reads_at;                                 // its next message is read later
  std::string first_bytes;                               // a request that came before admission
  WallTime connected_at;
  std::array<WallTime, kXdsTypes.size()> updated{};
  std::optional<SteadyTime> write_started;
  std::size_t write_bytes = 0;
  // The earliest mesh change that is on its way to this proxy, and all later ones as one.
  PendingChange change;
  PendingChange later_changes;
  std::optional<SteadyTime> given_at;  // time since which new resources wait for a write
  Kind kind = Kind::kUnheard;          // set by the table
  bool warned = false;                 // a warning about the end of its certificate was logged
  bool settled = false;       // holds everything that its class holds, so it is as far as its class
  bool whole = false;         // has asked for everything that its clusters and listeners name
  std::uint64_t applied = 0;  // the newest generation that it had acknowledged, see Hub::applied()
  std::array<Step, kXdsTypes.size()> steps;
  bool progressed = false;  // subscribers are to be told in this turn
  ResourceSetPtr
      whole_clusters;  // with these clusters and listeners it held everything that they name
  ResourceSetPtr whole_listeners;
  bool serves = false;            // it has acknowledged what it is to serve, as its class has it:
  std::uint64_t admits = 0;       // MeshSnapshot::admits_of() its account, in its mesh
  std::uint64_t serves_from = 0;  // the generation in which that changed

  model::ProxyKey key() const { return peer.key(); }
};

class StreamTable {
 public:
  Stream& add(StreamId id, Peer peer, std::shared_ptr<ProxyStream> transport);

  struct Removed {
    enum class Place { kUnserved, kBeside, kServing } place = Place::kUnserved;
    Stream stream;
    Stream* successor = nullptr;  // serves in the place of a serving stream; null: there is none
  };
  // Precondition: the stream is there.
  Removed remove(StreamId id);

  // Null: it has ended.
  Stream* find(StreamId id) { return find_in(streams_, id); }
  const Stream* find(StreamId id) const { return find_in(streams_, id); }
  Stream& at(StreamId id) { return streams_.at(id); }
  const Stream& at(StreamId id) const { return streams_.at(id); }
  // All streams by id.
  auto begin() { return streams_.begin(); }
  auto begin() const { return streams_.begin(); }
  auto end() { return streams_.end(); }
  auto end() const { return streams_.end(); }
  bool empty() const { return streams_.empty(); }

  // Lets the stream wait for its workload. Result: the certificate's streams that waited before,
  // which the caller ends: each holds a request, so only the newest one may wait.
  std::set<StreamId> wait(const Stream& stream);
  std::set<StreamId> waiting(const model::ProxyKey& key) const;

  // Result: the streams that `newer` supersedes. The caller ends them all before it calls serve().
  // An Envoy that was taken for a library, and stood beside another stream, has no place until
  // then.
  std::vector<StreamId> supersede(const Stream& newer);
  // Gives the stream its place, and ends its wait. Result: true if it is the serving one, false if
  // it stands beside it.
  bool serve(const Stream& stream);

  // The serving stream of each certificate.
  const std::map<model::ProxyKey, StreamId>& serving() const { return serving_; }
  Stream* serving(const model::ProxyKey& key);  // null: there is none
  const Stream* serving(const model::ProxyKey& key) const;
  // The streams that are served with the certificate, the serving one first.
  std::vector<StreamId> served(const model::ProxyKey& key) const;
  // Proxies with a stream that serves or waits.
  std::set<model::ProxyKey> proxies() const;

  void set_workload(Stream& stream, std::shared_ptr<const model::WorkloadEntry> workload);
  // Streams with a workload that the service selects; null: none.
  const std::set<StreamId>* selected_by(const ServiceName& service) const {
    return find_in(selected_by_, service);
  }

  // `kind`: as the first request says.
  void set_kind(Stream& stream, Stream::Kind kind);
  // An unheard stream counts as its class does, and without a class as its proxy's last stream.
  bool is_library(const Stream& stream) const;
  // The workload is gone: the next stream of its proxy counts as an Envoy's until it is heard.
  void forget_kind(const model::ProxyKey& key) { libraries_.erase(key); }

 private:
  bool stands_beside(const Stream& stream) const;

  std::map<StreamId, Stream> streams_;
  std::map<model::ProxyKey, StreamId> serving_;
  // Further streams of gRPC libraries: each channel and each server of a process has its own, with
  // one certificate.
  std::map<model::ProxyKey, std::set<StreamId>> beside_;
  std::map<model::ProxyKey, std::set<StreamId>> waiting_;
  std::map<ServiceName, std::set<StreamId>> selected_by_;
  std::set<model::ProxyKey> libraries_;  // proxies whose last stream was of a gRPC library
};

}  // namespace osm::inline v1::ads
