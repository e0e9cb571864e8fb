// Answers of name servers are read, and a round tells errors and silence of a real socket apart.
#include "dns/lookup.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "lib/growing_time.hpp"

using namespace osm;
using namespace osm::dns;
using namespace std::chrono_literals;

namespace {

using Bytes = std::vector<unsigned char>;

void put16(Bytes& out, unsigned value) {
  out.push_back(static_cast<unsigned char>(value >> 8));
  out.push_back(static_cast<unsigned char>(value & 255));
}

void put_name(Bytes& out, const std::string& name) {
  std::size_t from = 0;
  while (from < name.size()) {
    const auto dot = std::min(name.find('.', from), name.size());
    out.push_back(static_cast<unsigned char>(dot - from));
    out.insert(out.end(), name.begin() + static_cast<long>(from),
               name.begin() + static_cast<long>(dot));
    from = dot + 1;
  }
  out.push_back(0);
}

struct Rr {
  std::string name;
  unsigned type;
  unsigned ttl;
  Bytes data;
};

Bytes address(const char* text) {
  Bytes out(4);
  inet_pton(AF_INET, text, out.data());
  return out;
}

Bytes service(unsigned priority, unsigned weight, unsigned port, const std::string& host) {
  Bytes out;
  for (const unsigned each : {priority, weight, port}) put16(out, each);
  put_name(out, host);
  return out;
}

Bytes alias(const std::string& host) {
  Bytes out;
  put_name(out, host);
  return out;
}

Bytes message(const std::string& name, unsigned type, const std::vector<Rr>& records,
              unsigned code = 0, unsigned id = 7) {
  Bytes out;
  put16(out, id);
  put16(out, 0x8180 | code);
  put16(out, 1);
  put16(out, static_cast<unsigned>(records.size()));
  put16(out, 0);
  put16(out, 0);
  put_name(out, name);
  put16(out, type);
  put16(out, 1);
  for (const Rr& record : records) {
    put_name(out, record.name);
    put16(out, record.type);
    put16(out, 1);
    put16(out, record.ttl >> 16);
    put16(out, record.ttl & 0xffff);
    put16(out, static_cast<unsigned>(record.data.size()));
    out.insert(out.end(), record.data.begin(), record.data.end());
  }
  return out;
}

// Answers every question for one name with NXDOMAIN, another with SERVFAIL, and others with an
// address; a name that begins with "silent" not at all.
class NameServer {
 public:
  NameServer() : socket_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&local), sizeof local) == 0);
    socklen_t size = sizeof local;
    REQUIRE(::getsockname(socket_, reinterpret_cast<sockaddr*>(&local), &size) == 0);
    port_ = ntohs(local.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~NameServer() {
    ended_ = true;
    thread_.join();
    ::close(socket_);
  }
  std::string address_text() const { return "127.0.0.1:" + std::to_string(port_); }
  unsigned queries() const { return queries_; }

 private:
  void serve() {
    while (!ended_) {
      pollfd waiting{socket_, POLLIN, 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      std::array<unsigned char, 512> asked{};
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const auto length = ::recvfrom(socket_, asked.data(), asked.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &size);
      if (length < 17) continue;
      ++queries_;
      std::string name;
      std::size_t at = 12;
      for (; asked.at(at) != 0; at += asked.at(at) + 1U) {
        if (!name.empty()) name += '.';
        for (unsigned i = 1; i <= asked.at(at); ++i)
          name += static_cast<char>(std::tolower(asked.at(at + i)));
      }
      if (name.starts_with("silent")) continue;
      const unsigned type = asked.at(at + 1) * 256U + asked.at(at + 2);
      const unsigned id = asked[0] * 256U + asked[1];
      const unsigned code = name.starts_with("gone") ? 3 : name.starts_with("broken") ? 2 : 0;
      std::vector<Rr> records;
      if (code == 0 && type == 33) records.push_back({name, 33, 9, service(1, 1, 80, "host.x")});
      if (code == 0 && type == 1) records.push_back({name, 1, 60, address("10.0.0.1")});
      const Bytes answer = message(name, type, records, code, id);
      ::sendto(socket_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
    }
  }

  int socket_;
  unsigned port_ = 0;
  std::atomic<bool> ended_ = false;
  std::atomic<unsigned> queries_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_SUITE("dns::read_answer") {
  TEST_CASE("addresses are read with the least TTL, through aliases") {
    const Answer answer =
        read_answer(RecordType::kA, message("www.shop", 1,
                                            {{"www.shop", 5, 20, alias("api.shop")},
                                             {"api.shop", 1, 60, address("10.0.0.2")},
                                             {"api.shop", 1, 60, address("10.0.0.1")},
                                             {"api.shop", 1, 60, address("10.0.0.1")}}));
    CHECK(answer.outcome == Outcome::kAnswered);
    CHECK(answer.ttl == 20s);
    REQUIRE(answer.records.size() == 2);
    CHECK(answer.records[0].target == "10.0.0.1");
    CHECK(answer.records[1].target == "10.0.0.2");
  }

  TEST_CASE("IPv6 addresses are read as such") {
    Bytes bytes(16);
    bytes[0] = 0xfd;
    bytes[15] = 7;
    const Answer answer =
        read_answer(RecordType::kAaaa, message("api.shop", 28, {{"api.shop", 28, 40, bytes}}));
    CHECK(answer.outcome == Outcome::kAnswered);
    CHECK(answer.ttl == 40s);
    CHECK(answer.records == std::vector<Record>{{"fd00::7"}});
  }

  TEST_CASE("SRV records are read with their least TTL, except those of no host and no port") {
    const Answer answer = read_answer(
        RecordType::kSrv, message("_web._tcp.shop", 33,
                                  {{"_web._tcp.shop", 33, 90, service(1, 5, 8080, "B.shop")},
                                   {"_web._tcp.shop", 33, 30, service(2, 6, 8081, "a.shop")},
                                   {"_web._tcp.shop", 33, 90, service(1, 5, 0, "c.shop")},
                                   {"_web._tcp.shop", 33, 90, service(1, 5, 9, "")}}));
    CHECK(answer.outcome == Outcome::kAnswered);
    CHECK(answer.ttl == 30s);
    CHECK(answer.records == std::vector<Record>{{"a.shop", 8081, 2, 6}, {"b.shop", 8080, 1, 5}});
  }

  TEST_CASE("an answer without records says so") {
    CHECK(read_answer(RecordType::kA, message("shop", 1, {})).outcome == Outcome::kNoData);
    CHECK(read_answer(RecordType::kSrv, message("shop", 33, {})).outcome == Outcome::kNoData);
  }

  TEST_CASE("bytes that are cut or no answer are refused") {
    const Bytes whole =
        message("_web._tcp.shop", 33, {{"_web._tcp.shop", 33, 90, service(1, 5, 8080, "b.shop")}});
    for (std::size_t length = 0; length < whole.size(); ++length)
      for (const RecordType type : {RecordType::kA, RecordType::kAaaa, RecordType::kSrv})
        CHECK(read_answer(type, std::span(whole).first(length)).records.empty());
  }
}

TEST_SUITE("dns::look_up") {
  TEST_CASE("name servers are read as other hosts are: with a port, and a dot at their end") {
    for (const char* server : {"192.0.2.53", "192.0.2.53.", "192.0.2.53:5353", "192.0.2.53.:53",
                               "2001:db8::53", "[2001:db8::53]", "[2001:db8::53]:53"})
      CHECK_MESSAGE(check_servers({server}).ok(), server);
    for (const char* server :
         {"", "ns.example.com", "192.0.2.53:0", "192.0.2.53:65536", "192.0.2.53:", "192.0.2",
          "[192.0.2.53]:53", "[2001:db8::53]53", "[2001:db8::53", "2001:db8::53:x"})
      CHECK_MESSAGE(!check_servers({server}).ok(), server);
  }

  TEST_CASE("one round tells answers, errors and silence of a name server apart") {
    NameServer server;
    const Question good{RecordType::kA, "good.shop"};
    const Question ipv6{RecordType::kAaaa, "good.shop"};
    const Question gone{RecordType::kA, "gone.shop"};
    const Question broken{RecordType::kA, "broken.shop"};
    const Question silent{RecordType::kA, "silent.shop"};
    const Question web{RecordType::kSrv, "_web._tcp.shop"};
    const std::atomic<bool> ended = false;
    std::map<Question, Found> found;
    // One question times out, and the others are answered before.
    CHECK(osm::testing::with_growing_time(200ms, [&](std::chrono::milliseconds timeout) {
      const Ask ask = make_lookup(
          {.servers = {server.address_text()}, .timeout = timeout, .deadline = 3 * timeout});
      found = look_up({good, ipv6, gone, broken, silent, web}, ask, ended);
      return std::ranges::none_of(found, [&](const auto& each) {
        return each.first != silent && each.second.outcome == Outcome::kSilent;
      });
    }));
    CHECK(found.at(good).outcome == Outcome::kAnswered);
    CHECK(found.at(good).ttl == 60s);
    CHECK(found.at(ipv6).outcome == Outcome::kNoData);
    CHECK(found.at(gone).outcome == Outcome::kNotFound);
    CHECK(found.at(broken).outcome == Outcome::kRefused);
    CHECK(found.at(silent).outcome == Outcome::kSilent);
    CHECK(found.at(web).ttl == 9s);
    REQUIRE(found.at(web).resolution.instances.size() == 1);
    CHECK(found.at(web).resolution.instances[0].address == "10.0.0.1");
    CHECK(found.at(web).resolution.instances[0].port == Port{80});
  }

  TEST_CASE("a round ends at its deadline, and at once when its resolver ends") {
    NameServer server;
    const Question silent{RecordType::kA, "silent.shop"};
    std::atomic<bool> ended = false;
    const auto start = std::chrono::steady_clock::now();
    const Ask brief =
        make_lookup({.servers = {server.address_text()}, .timeout = 60000ms, .deadline = 200ms});
    CHECK(look_up({silent}, brief, ended).at(silent).outcome == Outcome::kSilent);
    ended = true;
    const Ask patient =
        make_lookup({.servers = {server.address_text()}, .timeout = 60000ms, .deadline = 60000ms});
    CHECK(look_up({silent}, patient, ended).at(silent).outcome == Outcome::kSilent);
    CHECK(std::chrono::steady_clock::now() - start < 30s);
  }

  TEST_CASE("a round of many names asks for all, and never for many at a time") {
    const std::atomic<bool> ended = false;
    const auto named = [](const std::string& prefix) {
      std::set<Question> out;
      for (int i = 0; i < 500; ++i)
        out.insert({RecordType::kA, prefix + std::to_string(i) + ".shop"});
      return out;
    };
    CHECK(osm::testing::with_growing_time(300ms, [&](std::chrono::milliseconds deadline) {
      NameServer server;
      const Ask brief = make_lookup(
          {.servers = {server.address_text()}, .timeout = 60000ms, .deadline = deadline});
      look_up(named("silent"), brief, ended);
      CHECK(server.queries() <= 64);
      return server.queries() == 64;
    }));
    NameServer server;
    const Ask patient =
        make_lookup({.servers = {server.address_text()}, .timeout = 5000ms, .deadline = 60000ms});
    for (const auto& [question, found] : look_up(named("host"), patient, ended))
      CHECK_MESSAGE(found.outcome == Outcome::kAnswered, question.name);
  }
}
