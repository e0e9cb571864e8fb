// A status follows the write in flight, a stalled write is cut, and recalls and drains end streams
// a few at a time.
#include "ads/endings.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "ads/memory_stream.hpp"
#include "ads/mesh_fixture.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::ads_test;
using namespace std::chrono_literals;
using ads::CloseCode;
using ads::Endings;
using ads::Pacer;
using ads::Stream;
using ads::StreamId;

namespace {

struct Rig {
  MemoryStream& add(const std::string& issuer_key_id = "") {
    ads::Peer peer;
    peer.issuer_key_id = issuer_key_id;
    ends.push_back(std::make_shared<MemoryStream>(XdsVariant::kSotw));
    streams.add(ends.size(), std::move(peer), ends.back());
    return *ends.back();
  }
  MemoryStream& add_served(const std::string& issuer_key_id) {
    MemoryStream& end = add(issuer_key_id);
    streams.at(ends.size()).session.emplace(XdsVariant::kSotw, names);
    return end;
  }
  void start_write(StreamId id) {
    Stream& stream = streams.at(id);
    stream.write_started = clock.steady_now();
    stream.write_bytes = 100;
    queue.started(100);
  }
  // As the hub does.
  void forget(StreamId id) { queue.finished(streams.remove(id).stream.write_bytes); }
  std::size_t closed() const {
    std::size_t count = 0;
    for (const auto& end : ends) count += end->closed.has_value();
    return count;
  }

  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  RandomRng rng{1};
  ads::NameSetPool names;
  ads::StreamTable streams;
  ads::PushQueue queue;
  std::vector<std::string> reports;
  Endings endings{
      {streams,
       queue,
       {executor, executor, clock, rng, log, metrics},
       executor,
       nullptr,
       [] { return Status(); },
       [this](const Stream&, CloseCode, const std::string& text) { reports.push_back(text); },
       [this](StreamId id) { forget(id); },
       [] {}}};
  std::vector<std::shared_ptr<MemoryStream>> ends;  // their streams are numbered from 1
};

}  // namespace

TEST_SUITE("ads::Endings") {
  TEST_CASE_FIXTURE(Rig, "a status follows the write in flight, whose bytes count until then") {
    const MemoryStream& end = add();
    start_write(1);
    endings.close(1, CloseCode::kAborted, "why");
    CHECK(reports == std::vector<std::string>{"why"});
    CHECK(streams.empty());
    CHECK_FALSE(end.closed);
    CHECK(queue.unfinished_bytes() == 100);
    endings.on_write_done(1);
    REQUIRE(end.closed);
    CHECK(end.closed->code == CloseCode::kAborted);
    CHECK(end.closed->text == "why");
    CHECK_FALSE(end.closed->cut);
    CHECK(queue.unfinished_bytes() == 0);
    endings.on_write_done(1);  // the transport would object to a second status
    endings.close(1, CloseCode::kAborted, "again");
    CHECK(reports.size() == 1);
  }

  TEST_CASE_FIXTURE(Rig, "a stream that is cut does not wait for its write") {
    const MemoryStream& end = add();
    start_write(1);
    endings.close(1, CloseCode::kAborted, "why", true);
    REQUIRE(end.closed);
    CHECK(end.closed->cut);
    CHECK(queue.unfinished_bytes() == 0);
  }

  TEST_CASE_FIXTURE(Rig, "a write that stalls is cut, also that of a stream that has ended") {
    const MemoryStream& open = add();
    const MemoryStream& ended = add();
    const MemoryStream& later = add();
    start_write(1);
    start_write(2);
    endings.close(2, CloseCode::kAborted, "why");
    clock.advance(1s);
    start_write(3);
    clock.advance(28s);
    endings.cut_stalled(clock.steady_now());
    CHECK(closed() == 0);
    clock.advance(1s);
    endings.cut_stalled(clock.steady_now());
    REQUIRE(closed() == 2);
    CHECK(open.closed->text.starts_with("stalled: "));
    CHECK(open.closed->cut);
    CHECK(ended.closed->text == "why");
    CHECK(ended.closed->cut);
    CHECK_FALSE(later.closed);
    CHECK(metrics.value("osm_streams_stalled_total") == 2);
    CHECK(queue.unfinished_bytes() == 100);
  }

  TEST_CASE_FIXTURE(Rig, "a recall ends served streams of other CA keys, a few at a time") {
    for (std::size_t i = 0; i < 2 * Pacer::kBurst; ++i) add_served("old");
    const MemoryStream& renewed = add_served("new");
    const MemoryStream& waits = add("old");  // for its workload
    endings.recall("new");
    CHECK(closed() == Pacer::kBurst);
    endings.recall("new");  // those that wait for their turn are not ended earlier
    CHECK(closed() == Pacer::kBurst);
    executor.run_for(Pacer::kTurn);
    CHECK(closed() == 2 * Pacer::kBurst);
    executor.run_for(30s);
    CHECK_FALSE(renewed.closed);
    CHECK_FALSE(waits.closed);
  }

  TEST_CASE_FIXTURE(Rig, "a drain without streams is over at once") {
    int done = 0;
    endings.drain(10s, [&] { ++done; });
    CHECK(done == 1);
    CHECK(endings.draining());
  }

  TEST_CASE_FIXTURE(Rig, "a drain within a short window hurries") {
    for (std::size_t i = 0; i < 35; ++i) add();
    int done = 0;
    endings.drain(200ms, [&] { ++done; });
    CHECK(done == 0);
    executor.run_for(200ms);
    CHECK(closed() == 35);
    CHECK(done == 1);
  }

  TEST_CASE_FIXTURE(Rig, "a drain is over when its last stream ends otherwise") {
    for (std::size_t i = 0; i <= Pacer::kBurst; ++i) add();
    int done = 0;
    endings.drain(10s, [&] { ++done; });
    REQUIRE(closed() == Pacer::kBurst);
    CHECK(done == 0);
    endings.close(ends.size(), CloseCode::kCancelled, "hung-up");
    CHECK(done == 1);
    executor.run_for(10s);
    CHECK(done == 1);
  }

  TEST_CASE_FIXTURE(Rig, "the end of all includes the streams whose write is in flight") {
    add();
    add();
    start_write(1);
    start_write(2);
    endings.close(2, CloseCode::kAborted, "why");
    endings.close_all(CloseCode::kUnavailable, "end");
    CHECK(ends[0]->closed->text == "end");
    CHECK(ends[1]->closed->text == "why");
    CHECK(queue.unfinished_bytes() == 0);
  }
}
