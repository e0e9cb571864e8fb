#include "soak_fleet.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include <fmt/format.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include "proxy_channel.hpp"

namespace osm::bench {
namespace {

constexpr const char* kService = "/envoy.service.discovery.v3.AggregatedDiscoveryService/";

enum Operation { kStart, kRead, kWrite, kFinish, kOperations };

}  // namespace

struct SoakFleet::Tag {
  Stream* stream;
  Operation operation;
};

struct SoakFleet::Stream {
  Stream(int its_proxy, std::vector<std::string> first)
      : proxy(its_proxy), outgoing(first.begin(), first.end()) {
    for (int operation = 0; operation < kOperations; ++operation)
      tags[static_cast<std::size_t>(operation)] = {this, static_cast<Operation>(operation)};
  }
  // Starts an operation's count. Result: its tag.
  void* tag(Operation operation) {
    ++pending;
    return &tags[operation];
  }

  const int proxy;
  std::array<Tag, kOperations> tags;
  std::shared_ptr<grpc::Channel> channel;
  grpc::ClientContext context;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  grpc::ByteBuffer incoming;
  std::deque<std::string> outgoing;
  int pending = 0;  // operations
  bool open = false, writing = false, finishing = false;
  grpc::Status status;
};

SoakFleet::SoakFleet(std::string address) : address_(std::move(address)) {}

SoakFleet::~SoakFleet() {
  for (int proxy = 0; proxy < size(); ++proxy)
    if (connected(proxy)) disconnect(proxy);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!streams_.empty() && step(deadline)) {
  }
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

int SoakFleet::add(XdsVariant variant, Credentials credentials) {
  const int index = size();
  members_.push_back(
      {std::make_unique<SoakProxy>(fmt::format("proxy-{}", index), variant, contents_),
       std::move(credentials)});
  return index;
}

void SoakFleet::replace(int proxy, Credentials credentials) {
  Member& place = member(proxy);
  place.past_refusals += place.proxy->refusals();
  place.proxy = std::make_unique<SoakProxy>(fmt::format("proxy-{}", proxy), place.proxy->variant(),
                                            contents_);
  place.credentials = std::move(credentials);
}

void SoakFleet::connect(int proxy, bool fresh) {
  Member& its = member(proxy);
  auto stream = std::make_unique<Stream>(proxy, its.proxy->open(fresh));
  stream->context.set_wait_for_ready(true);
  stream->channel = channel_to(address_, its.credentials);
  const std::string method = its.proxy->variant() == XdsVariant::kDelta
                                 ? "DeltaAggregatedResources"
                                 : "StreamAggregatedResources";
  stream->call =
      grpc::GenericStub(stream->channel).PrepareCall(&stream->context, kService + method, &queue_);
  stream->call->StartCall(stream->tag(kStart));
  its.stream = stream.get();
  streams_.push_back(std::move(stream));
  ++connections_;
}

void SoakFleet::disconnect(int proxy) {
  std::exchange(member(proxy).stream, nullptr)->context.TryCancel();
}

std::uint64_t SoakFleet::refusals() const {
  std::uint64_t sum = 0;
  for (const Member& its : members_) sum += its.past_refusals + its.proxy->refusals();
  return sum;
}

bool SoakFleet::run_until(const std::function<bool()>& done,
                          std::chrono::steady_clock::time_point deadline) {
  while (failure_.empty() && !done())
    if (!step(deadline)) return false;
  return failure_.empty();
}

bool SoakFleet::work_until(std::chrono::steady_clock::time_point time) {
  while (failure_.empty() && step(time)) {
  }
  return failure_.empty();
}

bool SoakFleet::step(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  void* raw;
  bool ok;
  const auto event =
      queue_.AsyncNext(&raw, &ok,
                       std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(left));
  if (event != grpc::CompletionQueue::GOT_EVENT) return false;
  const Tag& tag = *static_cast<Tag*>(raw);
  Stream& stream = *tag.stream;
  --stream.pending;
  on_event(stream, tag.operation, ok);
  if (stream.finishing && stream.pending == 0)
    std::erase_if(streams_, [&](const auto& held) { return held.get() == &stream; });
  return true;
}

void SoakFleet::on_event(Stream& stream, int operation, bool ok) {
  if (operation == kFinish) return on_end(stream);
  if (!ok) {  // the stream ended; ask why
    stream.open = false;
    if (!std::exchange(stream.finishing, true))
      stream.call->Finish(&stream.status, stream.tag(kFinish));
    return;
  }
  if (operation == kStart) {
    stream.open = true;
    stream.call->Read(&stream.incoming, stream.tag(kRead));
  }
  if (operation == kRead && stream.open) on_message(stream);
  if (operation == kWrite) stream.writing = false;
  write_next(stream);
}

void SoakFleet::on_end(Stream& stream) {
  Member& its = member(stream.proxy);
  if (its.stream != &stream) return;  // it was disconnected
  its.stream = nullptr;
  if (failure_.empty())
    failure_ =
        fmt::format("proxy {}: the server ended the stream: {} ({})", stream.proxy,
                    stream.status.error_message(), static_cast<int>(stream.status.error_code()));
}

void SoakFleet::on_message(Stream& stream) {
  Member& its = member(stream.proxy);
  if (its.stream == &stream) {
    ++responses_;
    std::vector<std::string> answers = its.proxy->receive(flatten(stream.incoming));
    if (answers.empty() && failure_.empty())
      failure_ =
          fmt::format("proxy {}: the server sent something that is no response", stream.proxy);
    for (std::string& answer : answers) stream.outgoing.push_back(std::move(answer));
  }
  stream.call->Read(&stream.incoming, stream.tag(kRead));
}

void SoakFleet::write_next(Stream& stream) {
  if (stream.writing || stream.outgoing.empty() || !stream.open) return;
  stream.writing = true;
  grpc::Slice slice(stream.outgoing.front());
  stream.outgoing.pop_front();
  stream.call->Write(grpc::ByteBuffer(&slice, 1), stream.tag(kWrite));
}

}  // namespace osm::bench
