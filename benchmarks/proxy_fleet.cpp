#include "proxy_fleet.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include "proxy_channel.hpp"
#include "simulated_proxy.hpp"

namespace osm::bench {
namespace {

constexpr const char* kMethod =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

enum Operation { kStart, kRead, kWrite, kFinish, kOperations };

}  // namespace

std::uint64_t Received::all_responses() const {
  return std::accumulate(responses.begin(), responses.end(), std::uint64_t{0});
}

std::uint64_t Received::all_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

Received Received::operator-(const Received& earlier) const {
  Received since = *this;
  for (std::size_t type = 0; type < responses.size(); ++type) {
    since.responses[type] -= earlier.responses[type];
    since.bytes[type] -= earlier.bytes[type];
  }
  return since;
}

struct ProxyFleet::Tag {
  Stream* stream;
  Operation operation;
};

struct ProxyFleet::Proxy {
  Proxy(int index_, ContentsIndex& contents)
      : index(index_), simulated(fmt::format("proxy-{}", index_), contents) {}

  int index;
  SimulatedProxy simulated;
  std::array<std::uint64_t, 5> marked{};
};

struct ProxyFleet::Stream {
  explicit Stream(Proxy& its) : proxy(its) {
    for (int operation = 0; operation < kOperations; ++operation)
      tags[operation] = {this, static_cast<Operation>(operation)};
  }

  Proxy& proxy;
  std::array<Tag, kOperations> tags;
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::ByteBuffer incoming;
  std::deque<std::string> outgoing;
  bool writing = false;
  bool open = false;
  grpc::Status status;
};

ProxyFleet::ProxyFleet(const std::string& address, const std::vector<Credentials>& credentials)
    : address_(address) {
  for (const Credentials& own : credentials) {
    proxies_.push_back(std::make_unique<Proxy>(static_cast<int>(proxies_.size()), index_));
    connect(*proxies_.back(), own);
  }
}

void ProxyFleet::connect(Proxy& proxy, const Credentials& credentials) {
  auto stream = std::make_unique<Stream>(proxy);
  // It tries again, as Envoy does: a thousand handshakes at once may take a busy machine longer
  // than the ten seconds that the server gives each.
  stream->context.set_wait_for_ready(true);
  stream->channel = channel_to(address_, credentials);
  stream->call = grpc::GenericStub(stream->channel).PrepareCall(&stream->context, kMethod, &queue_);
  stream->call->StartCall(&stream->tags[kStart]);
  ++pending_operations_;
  streams_.push_back(std::move(stream));
}

ProxyFleet::~ProxyFleet() {
  closing_ = true;
  for (const auto& stream : streams_) stream->context.TryCancel();
  void* tag;
  bool ok;
  while (pending_operations_ > 0 && queue_.Next(&tag, &ok)) --pending_operations_;
  queue_.Shutdown();
  while (queue_.Next(&tag, &ok)) {
  }
}

bool ProxyFleet::step(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  void* raw;
  bool ok;
  const auto event =
      queue_.AsyncNext(&raw, &ok,
                       std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(left));
  if (event != grpc::CompletionQueue::GOT_EVENT) return false;
  --pending_operations_;
  const Tag& tag = *static_cast<Tag*>(raw);
  on_event(*tag.stream, tag.operation, ok);
  return true;
}

bool ProxyFleet::run_until(const std::function<bool()>& done,
                           std::chrono::steady_clock::time_point deadline) {
  while (!done()) {
    if (!step(deadline) && failure_.empty())
      failure_ = fmt::format("the deadline passed with {} of {} proxies configured", configured_,
                             proxies_.size());
    if (!failure_.empty()) return false;
  }
  return true;
}

bool ProxyFleet::work_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (failure_.empty() && step(end)) {
  }
  return failure_.empty();
}

void ProxyFleet::on_event(Stream& stream, int operation, bool ok) {
  if (operation == kFinish) return on_end(stream);
  if (!ok) {  // the stream ended; ask why
    if (std::exchange(stream.open, false) || operation == kStart) {
      stream.call->Finish(&stream.status, &stream.tags[kFinish]);
      ++pending_operations_;
    }
    return;
  }
  switch (operation) {
    case kStart:
      stream.open = true;
      for (std::string& request : stream.proxy.simulated.open())
        stream.outgoing.push_back(std::move(request));
      write_next(stream);
      stream.call->Read(&stream.incoming, &stream.tags[kRead]);
      ++pending_operations_;
      break;
    case kRead:
      if (stream.open) on_message(stream);
      break;
    case kWrite:
      stream.writing = false;
      write_next(stream);
      break;
    default:
      break;
  }
}

void ProxyFleet::on_end(const Stream& stream) {
  Proxy& proxy = stream.proxy;
  if (newer_.empty())
    return fail(stream,
                fmt::format("the server ended the stream: {} ({})", stream.status.error_message(),
                            static_cast<int>(stream.status.error_code())));
  connect(proxy, newer_[static_cast<std::size_t>(proxy.index)]);
}

void ProxyFleet::on_message(Stream& stream) {
  SimulatedProxy& proxy = stream.proxy.simulated;
  std::string bytes = flatten(stream.incoming);
  const bool was_configured = proxy.configured();
  auto reaction = proxy.receive(bytes);
  if (!reaction) {
    fail(stream, "the server sent something that is no DiscoveryResponse");
    return;
  }
  configured_ += proxy.configured() ? 1 : 0;
  configured_ -= was_configured ? 1 : 0;
  const auto slot = static_cast<std::size_t>(reaction->type);
  ++received_.responses[slot];
  received_.bytes[slot] += bytes.size();
  if (stream.proxy.index == 0) recorded_.try_emplace(reaction->type, std::move(bytes));
  for (std::string& request : reaction->requests) stream.outgoing.push_back(std::move(request));
  write_next(stream);
  stream.call->Read(&stream.incoming, &stream.tags[kRead]);
  ++pending_operations_;
}

void ProxyFleet::write_next(Stream& stream) {
  if (stream.writing || stream.outgoing.empty() || !stream.open) return;
  stream.writing = true;
  grpc::Slice slice(stream.outgoing.front());
  stream.outgoing.pop_front();
  stream.call->Write(grpc::ByteBuffer(&slice, 1), &stream.tags[kWrite]);
  ++pending_operations_;
}

void ProxyFleet::fail(const Stream& stream, const std::string& why) {
  if (failure_.empty()) failure_ = fmt::format("proxy {}: {}", stream.proxy.index, why);
}

void ProxyFleet::mark() {
  for (const auto& proxy : proxies_)
    for (XdsType type : kXdsTypes)
      proxy->marked[static_cast<std::size_t>(type)] = proxy->simulated.responses(type);
}

std::uint64_t ProxyFleet::arrived(int proxy, std::bitset<5> types) const {
  const Proxy& asked = *proxies_[static_cast<std::size_t>(proxy)];
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (XdsType type : kXdsTypes) {
    const auto slot = static_cast<std::size_t>(type);
    if (types.test(slot))
      fewest = std::min(fewest, asked.simulated.responses(type) - asked.marked[slot]);
  }
  return fewest;
}

std::size_t ProxyFleet::receivers(std::uint64_t expected) const {
  std::size_t count = 0;
  for (const auto& proxy : proxies_) {
    std::uint64_t since_mark = 0;
    for (XdsType type : kXdsTypes)
      since_mark +=
          proxy->simulated.responses(type) - proxy->marked[static_cast<std::size_t>(type)];
    count += since_mark > expected ? 1 : 0;
  }
  return count;
}

}  // namespace osm::bench
