// Streamed answers arrive in order with flat memory.
#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <memory>

#include "lib/growing_time.hpp"
#include "net/gzip_text.hpp"
#include "net/io_fixture.hpp"
#include "net/scripted_server.hpp"
#include "net/tls_fixture.hpp"
#include "osm/net/http_client.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::net;

namespace {

using namespace std::chrono_literals;

constexpr std::string_view kChunkedHead =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string chunk(std::string_view data) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  return size + std::string(data) + "\r\n";
}

// Events of a stream, in order.
struct Recorder {
  HttpStreamEvents events() {
    return {.on_head =
                [this](const Response& head) {
                  std::lock_guard lock(mutex);
                  log += "head " + std::to_string(head.status) + ' ' + head.content_type + '|';
                },
            .on_data =
                [this](std::string_view data) {
                  std::lock_guard lock(mutex);
                  log += data;
                },
            .on_end =
                [this](const Status& status) {
                  std::lock_guard lock(mutex);
                  log += status.ok() ? "|end" : "|" + status.error().text();
                  ended.set_value(status);
                }};
  }
  std::string text() {
    std::lock_guard lock(mutex);
    return log;
  }

  std::mutex mutex;
  std::string log;
  std::promise<Status> ended;
};

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

TEST_SUITE("net::HttpClient streams") {
  TEST_CASE("head, data and end come in order, each piece when the server sent it") {
    std::promise<void> seen;
    ScriptedServer server([&](Peer& peer) {
      peer.next_request();
      peer.send(kChunkedHead);
      peer.send(chunk("one,"));
      seen.get_future().wait();
      peer.send(chunk("two") + "0\r\n\r\n");
      peer.wait_for_close();
    });
    IoThreads io;
    const auto client = HttpClient::create({.address = server.address()}, io.executor);
    Recorder recorder;
    const Subscription stream = client->open_stream({}, recorder.events());
    CHECK(testing::wait_until([&] { return recorder.text() == "head 200 application/json|one,"; }));
    seen.set_value();
    CHECK(recorder.ended.get_future().get().ok());
    CHECK(recorder.text() == "head 200 application/json|one,two|end");
  }

  TEST_CASE("a compressed body arrives decompressed, and a damaged one ends the stream") {
    const std::string body = gzip_text("one,two");
    ScriptedServer server([&](Peer& peer) {
      peer.next_request();
      CHECK(peer.header("Accept-Encoding") == (peer.number() == 4 ? "" : "gzip"));
      const bool plain = peer.number() == 2 || peer.number() == 4;
      peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n");
      peer.send(plain ? "\r\n" : "Content-Encoding: gzip\r\n\r\n");
      if (plain) peer.send(chunk("plain"));
      if (peer.number() == 1) peer.send(chunk(body.substr(0, 12)) + chunk(body.substr(12)));
      if (peer.number() == 3) peer.send(chunk(body.substr(0, body.size() - 1)));
      peer.send("0\r\n\r\n");
      peer.wait_for_close();
    });
    IoThreads io;
    const auto client = HttpClient::create({.address = server.address()}, io.executor);
    const auto text_of = [&](bool gzip) {
      Recorder recorder;
      const Subscription stream = client->open_stream({.gzip = gzip}, recorder.events());
      recorder.ended.get_future().wait();
      return recorder.text();
    };
    CHECK(text_of(true) == "head 200 text/plain|one,two|end");
    CHECK(text_of(true) == "head 200 text/plain|plain|end");
    CHECK(text_of(true).find("|invalid-syntax: ") != std::string::npos);
    CHECK(text_of(false) == "head 200 text/plain|plain|end");
  }

  TEST_CASE("a stream that breaks, or never gets a head, says so once") {
    ScriptedServer server([](Peer& peer) {
      peer.next_request();
      if (peer.number() == 1) peer.send(std::string(kChunkedHead) + chunk("x"));
      if (peer.number() == 3) peer.send("HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone");
    });
    IoThreads io;
    const auto client = HttpClient::create({.address = server.address()}, io.executor);
    Recorder cut;
    const Subscription first = client->open_stream({}, cut.events());
    CHECK(cut.ended.get_future().get().error().code == ErrorCode::kUnavailable);
    CHECK(cut.text().starts_with("head 200 application/json|x|unavailable: GET / at "));
    Recorder refused;
    const Subscription second = client->open_stream({}, refused.events());
    CHECK(refused.ended.get_future().get().error().code == ErrorCode::kUnavailable);
    CHECK(refused.text().starts_with("|unavailable"));
    Recorder gone;  // a status is not a failure
    const Subscription third = client->open_stream({}, gone.events());
    CHECK(gone.ended.get_future().get().ok());
    CHECK(gone.text() == "head 410 |gone|end");
  }

  TEST_CASE("the deadline is for the head alone") {
    IoThreads io;
    std::promise<void> later;
    const auto is_later = later.get_future().share();
    ScriptedServer server([&](Peer& peer) {
      peer.next_request();
      if (peer.number() == 1) return peer.wait_for_close();
      peer.send(kChunkedHead);
      is_later.wait();
      peer.send(chunk("late") + "0\r\n\r\n");
    });
    const auto client = HttpClient::create({.address = server.address()}, io.executor);
    Recorder headless;
    const Subscription none = client->open_stream({.deadline = 40ms}, headless.events());
    CHECK(headless.ended.get_future().get().error().code == ErrorCode::kDeadlineExceeded);
    std::unique_ptr<Recorder> recorder;
    Subscription stream;
    std::chrono::milliseconds passed{};
    CHECK(testing::with_growing_time(1s, [&](std::chrono::milliseconds deadline) {
      stream.reset();
      recorder = std::make_unique<Recorder>();
      stream = client->open_stream({.deadline = deadline}, recorder->events());
      testing::wait_until([&] { return !recorder->text().empty(); }, 30s);
      passed = deadline + 100ms;
      return recorder->text().starts_with("head ");
    }));
    const Subscription timer = io.executor.post_after(passed, [&] { later.set_value(); });
    CHECK(recorder->ended.get_future().get().ok());
    CHECK(recorder->text().ends_with("|late|end"));
  }

  TEST_CASE("streams have connections of their own, beside those of calls") {
    ScriptedServer server([](Peer& peer) {
      if (peer.next_request().find("/watch") == std::string::npos) return void(peer.answer("call"));
      peer.send(std::string(kChunkedHead) + chunk("x"));
      peer.wait_for_close();
    });
    IoThreads io;
    const auto client =
        HttpClient::create({.address = server.address(), .max_connections = 1}, io.executor);
    Recorder recorders[3];
    std::vector<Subscription> streams;
    for (Recorder& recorder : recorders)
      streams.push_back(client->open_stream({.target = "/watch"}, recorder.events()));
    for (Recorder& recorder : recorders)
      CHECK(testing::wait_until([&] { return recorder.text().ends_with("|x"); }));
    CHECK(client->call({})->body == "call");
    streams.clear();
    CHECK(testing::wait_until([&] { return server.open() == 0; }));
  }

  TEST_CASE("a stream may end itself inside its own event, and hears nothing after that") {
    ScriptedServer server([](Peer& peer) {
      peer.next_request();
      peer.send(kChunkedHead);
      while (peer.send(chunk("again"))) {
      }
    });
    IoThreads io;
    const auto client = HttpClient::create({.address = server.address()}, io.executor);
    std::promise<void> assigned;
    std::atomic<int> heard{0};
    std::atomic<int> ended{0};
    Subscription stream;
    stream = client->open_stream({}, {.on_head = {},
                                      .on_data =
                                          [&](std::string_view) {
                                            if (heard == 0) assigned.get_future().wait();
                                            stream.reset();
                                            ++heard;
                                          },
                                      .on_end = [&](const Status&) { ++ended; }});
    assigned.set_value();
    REQUIRE(testing::wait_until([&] { return heard == 1; }));
    CHECK(testing::wait_until([&] { return server.open() == 0; }));
    CHECK(heard == 1);
    CHECK(ended == 0);
  }

  TEST_CASE("100 MB pass over TLS in pieces of at most 64 KiB while memory stays flat") {
    constexpr std::size_t kMegabyte = 1024 * 1024;
    constexpr std::size_t kPiece = 100'000;
    constexpr std::size_t kAll = 1000 * kPiece;
    const TestCa ca;
    const auto certificate = ca.issue("IP:127.0.0.1");
    boost::asio::ssl::context tls = server_context(*certificate);
    std::atomic<std::size_t> sent{0};
    ScriptedServer server([&](Peer& peer) {
      if (!peer.start_tls(tls)) return;
      peer.next_request();
      peer.send(kChunkedHead);
      const std::string piece = chunk(std::string(kPiece, 'x'));
      for (; sent < kAll; sent += kPiece)
        if (!peer.send(piece)) return;
      peer.send("0\r\n\r\n");
      peer.wait_for_close();
    });
    IoThreads io;
    const auto client =
        HttpClient::create({.address = server.address(), .tls = ca.client()}, io.executor);
    std::promise<void> first;
    std::promise<void> release;
    std::promise<Status> ended;
    std::size_t received = 0;
    std::size_t largest = 0;
    std::size_t before = 0;
    std::size_t most = 0;
    const Subscription stream = client->open_stream(
        {}, {.on_head = {},
             .on_data =
                 [&](std::string_view data) {
                   if (received == 0) {  // a consumer that does not keep up: it should post
                     first.set_value();
                     release.get_future().wait();
                     before = resident_bytes();
                   }
                   largest = std::max(largest, data.size());
                   if ((received + data.size()) / kMegabyte > received / kMegabyte)
                     most = std::max(most, resident_bytes());
                   received += data.size();
                 },
             .on_end = [&](Status status) { ended.set_value(std::move(status)); }});
    first.get_future().wait();
    // While it does not read, the server can send no more than the kernel's buffers hold.
    std::size_t last = kAll;
    CHECK(testing::wait_until([&] {
      std::this_thread::yield();
      return sent == std::exchange(last, sent.load()) && sent > 0;
    }));
    CHECK(sent < kAll / 2);
    release.set_value();
    const Status status = ended.get_future().get();
    REQUIRE_MESSAGE(status.ok(), status.error().text());
    CHECK(received == kAll);
    CHECK(largest <= 64 * 1024);
#ifndef OSM_SANITIZED  // a sanitizer keeps freed memory for a while
    CHECK(most < before + 8 * kMegabyte);
#endif
  }
}

}  // namespace
