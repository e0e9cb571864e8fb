// One stream serves a certificate, and only streams of the same gRPC library stand beside it.
#include "ads/stream_table.hpp"

#include <doctest/doctest.h>

#include "ads/mesh_fixture.hpp"

using namespace osm;
using namespace osm::ads_test;
using translate_test::kClient;
using translate_test::kServerService;

namespace {

using ads::Stream;
using ads::StreamId;
using Place = ads::StreamTable::Removed::Place;
using Ids = std::vector<StreamId>;

struct Rig {
  Stream& add(const std::string& address = "10.0.0.1") {
    ads::Peer peer;
    peer.identity = {kClientId, {kClient.ns, kClient.name}};
    peer.address = "ipv4:" + address + ":40000";
    return table.add(++last_id, std::move(peer), nullptr);
  }
  // Ends those that it supersedes, as the hub does, and serves it. Result: the ended ones.
  Ids serve(Stream& stream) {
    const Ids ended = table.supersede(stream);
    for (const StreamId id : ended) table.remove(id);
    select(stream, {kServerService});
    table.serve(stream);
    return ended;
  }
  void select(Stream& stream, const std::vector<ServiceName>& services) {
    table.set_workload(stream, std::make_shared<const model::WorkloadEntry>(
                                   workload(kClientId, kClient, services)));
  }
  Stream& serve_library() {
    Stream& stream = add();
    serve(stream);
    table.set_kind(stream, Stream::Kind::kLibrary);
    return stream;
  }

  ads::StreamTable table;
  StreamId last_id = 0;
  const model::ProxyKey key{kClient.ns, kClientId};
};

}  // namespace

TEST_SUITE("ads::StreamTable") {
  TEST_CASE_FIXTURE(Rig, "a newer stream takes the place of an Envoy's") {
    Stream& older = add();
    CHECK(serve(older).empty());
    CHECK(table.serving(key) == &older);
    table.set_kind(older, Stream::Kind::kEnvoy);
    const StreamId gone = older.id;
    Stream& newer = add();
    CHECK(serve(newer) == Ids{gone});
    CHECK(table.serving(key) == &newer);
    CHECK(table.served(key) == Ids{newer.id});
    CHECK(table.serving().size() == 1);
    CHECK(table.find(gone) == nullptr);
  }

  TEST_CASE_FIXTURE(Rig, "a library's next stream stands beside the first, and takes its place") {
    const StreamId first = serve_library().id;
    Stream& second = add();
    CHECK(serve(second).empty());
    CHECK(table.is_library(second));  // unheard, as the proxy's last one
    Stream& third = add();
    CHECK(serve(third).empty());
    CHECK(table.served(key) == Ids{first, second.id, third.id});

    CHECK(table.remove(third.id).place == Place::kBeside);
    const auto removed = table.remove(first);
    CHECK(removed.place == Place::kServing);
    CHECK(removed.successor == &second);
    CHECK(table.served(key) == Ids{second.id});
    const auto last = table.remove(second.id);
    CHECK(last.place == Place::kServing);
    CHECK(last.successor == nullptr);
    CHECK(table.serving().empty());
    CHECK(table.empty());
  }

  TEST_CASE_FIXTURE(Rig, "from another address a stream supersedes all of a library's") {
    const StreamId first = serve_library().id;
    const StreamId second = serve_library().id;
    Stream& other = add("10.0.0.2");
    CHECK(serve(other) == Ids{first, second});
    CHECK(table.served(key) == Ids{other.id});
  }

  TEST_CASE_FIXTURE(Rig, "an Envoy that was taken for a library's stream supersedes all others") {
    const StreamId first = serve_library().id;
    const StreamId second = serve_library().id;
    Stream& envoy = add();
    serve(envoy);
    REQUIRE(table.served(key).size() == 3);
    table.set_kind(envoy, Stream::Kind::kEnvoy);
    CHECK(serve(envoy) == Ids{first, second});
    CHECK(table.serving(key) == &envoy);
    CHECK(table.served(key) == Ids{envoy.id});
  }

  TEST_CASE_FIXTURE(Rig,
                    "an unheard stream counts as its proxy's last one, until that is forgotten") {
    table.remove(serve_library().id);
    CHECK(table.is_library(add()));
    table.forget_kind(key);
    CHECK_FALSE(table.is_library(add()));
  }

  TEST_CASE_FIXTURE(Rig, "one stream of a certificate waits, until it is served or ends") {
    const Stream& older = add();
    CHECK(table.wait(older).empty());
    Stream& newer = add();
    CHECK(table.wait(newer) == std::set<StreamId>{older.id});
    CHECK(table.remove(older.id).place == Place::kUnserved);
    CHECK(table.waiting(key) == std::set<StreamId>{newer.id});
    CHECK(table.proxies() == std::set<model::ProxyKey>{key});
    CHECK(table.serving().empty());
    serve(newer);
    CHECK(table.waiting(key).empty());
    CHECK(table.proxies() == std::set<model::ProxyKey>{key});
  }

  TEST_CASE_FIXTURE(Rig, "a stream is found by the Services that select its workload now") {
    Stream& stream = add();
    CHECK(table.selected_by(kServerService) == nullptr);
    serve(stream);
    REQUIRE(table.selected_by(kServerService));
    CHECK(*table.selected_by(kServerService) == std::set<StreamId>{stream.id});
    select(stream, {});
    CHECK(table.selected_by(kServerService) == nullptr);
    select(stream, {kServerService});
    table.remove(stream.id);
    CHECK(table.selected_by(kServerService) == nullptr);
  }
}
