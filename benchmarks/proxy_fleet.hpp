// N simulated proxies, each on a connection of its own over mutual TLS. Everything runs in the
// caller's thread, inside run_until().
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/completion_queue.h>

#include "certificates.hpp"
#include "discovery.hpp"

namespace osm::bench {

// Received responses, by XdsType.
struct Received {
  std::array<std::uint64_t, 5> responses{};
  std::array<std::uint64_t, 5> bytes{};

  std::uint64_t all_responses() const;
  std::uint64_t all_bytes() const;
  Received operator-(const Received& earlier) const;
};

class ProxyFleet {
 public:
  // Opens a stream per element of `credentials`.
  ProxyFleet(const std::string& address, const std::vector<Credentials>& credentials);
  ~ProxyFleet();  // cancels the streams

  // From now on a proxy whose stream the server ends opens another one with its certificate of
  // these, one per proxy. Before, that is a failure.
  void renew(std::vector<Credentials> newer) { newer_ = std::move(newer); }

  // Lets the proxies work until `done` holds, which is looked at after every message.
  // Result: false when `deadline` passed first or a stream ended; see failure().
  bool run_until(const std::function<bool()>& done, std::chrono::steady_clock::time_point deadline);
  // Lets them work that long. Result: false when a stream ended.
  bool work_for(std::chrono::milliseconds time);
  const std::string& failure() const { return failure_; }

  std::size_t configured() const { return configured_; }
  Received received() const { return received_; }

  // Starts counting afresh for arrived() and receivers().
  void mark();
  // Least number of responses of one of `types` that `proxy` received since the mark.
  std::uint64_t arrived(int proxy, std::bitset<5> types) const;
  // Number of proxies that received more than `expected` responses since the mark.
  std::size_t receivers(std::uint64_t expected) const;

  // Keeps the first response of every type that proxy 0 receives: what a bare server replays.
  // By type.
  const std::map<XdsType, std::string>& recorded() const { return recorded_; }

 private:
  struct Proxy;
  struct Stream;
  struct Tag;
  // Takes the next event. Result: false when `deadline` passed first.
  bool step(std::chrono::steady_clock::time_point deadline);
  void connect(Proxy& proxy, const Credentials& credentials);
  void on_event(Stream& stream, int operation, bool ok);
  void on_end(const Stream& stream);
  void on_message(Stream& stream);
  void write_next(Stream& stream);
  void fail(const Stream& stream, const std::string& why);

  ContentsIndex index_;
  grpc::CompletionQueue queue_;
  const std::string address_;
  std::vector<std::unique_ptr<Proxy>> proxies_;
  std::vector<std::unique_ptr<Stream>> streams_;  // of all times: operations of old ones may come
  std::vector<Credentials> newer_;
  std::size_t configured_ = 0;
  std::size_t pending_operations_ = 0;
  bool closing_ = false;
  Received received_;
  std::map<XdsType, std::string> recorded_;
  std::string failure_;
};

}  // namespace osm::bench
