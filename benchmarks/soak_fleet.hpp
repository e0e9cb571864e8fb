// The proxies of the soak over mutual TLS, which leave, come back and are replaced. Unlike
// ProxyFleet it frees what ended streams held, so that it runs for hours. Everything runs in the
// caller's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <grpcpp/completion_queue.h>

#include "certificates.hpp"
#include "soak_proxy.hpp"

namespace osm::bench {

class SoakFleet {
 public:
  explicit SoakFleet(std::string address);
  ~SoakFleet();  // cancels the streams
  SoakFleet(const SoakFleet&) = delete;
  SoakFleet& operator=(const SoakFleet&) = delete;

  // Adds a proxy, which is away. Result: its index.
  int add(XdsVariant variant, Credentials credentials);
  // Another proxy takes the place of one that is away.
  void replace(int proxy, Credentials credentials);
  // Opens a stream, without memory of what it held before if `fresh`.
  void connect(int proxy, bool fresh);
  void disconnect(int proxy);
  bool connected(int proxy) const { return member(proxy).stream != nullptr; }

  // Lets the proxies work until `done` holds, which is looked at after every message.
  // Result: false when `deadline` passed first, or a stream ended that was not disconnected: see
  // failure().
  bool run_until(const std::function<bool()>& done, std::chrono::steady_clock::time_point deadline);
  // Lets them work until then. Result: false when such a stream ended.
  bool work_until(std::chrono::steady_clock::time_point time);
  const std::string& failure() const { return failure_; }

  int size() const { return static_cast<int>(members_.size()); }
  const SoakProxy& proxy(int index) const { return *member(index).proxy; }
  std::uint64_t responses() const { return responses_; }
  std::uint64_t refusals() const;
  std::uint64_t connections() const { return connections_; }

 private:
  struct Stream;
  struct Tag;
  struct Member {
    std::unique_ptr<SoakProxy> proxy;
    Credentials credentials;
    Stream* stream = nullptr;  // of streams_
    std::uint64_t past_refusals = 0;
  };
  Member& member(int proxy) { return members_[static_cast<std::size_t>(proxy)]; }
  const Member& member(int proxy) const { return members_[static_cast<std::size_t>(proxy)]; }
  // Takes the next event. Result: false when `deadline` passed first.
  bool step(std::chrono::steady_clock::time_point deadline);
  void on_event(Stream& stream, int operation, bool ok);
  void on_end(Stream& stream);
  void on_message(Stream& stream);
  void write_next(Stream& stream);

  const std::string address_;
  ResourceContents contents_;
  grpc::CompletionQueue queue_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::uint64_t responses_ = 0, connections_ = 0;
  std::string failure_;
};

}  // namespace osm::bench
