// The first CA in etcd stays, and errors name the endpoint, the reason and the remedy.
#include <doctest/doctest.h>

#include <utility>

#include "etcd/client.hpp"
#include "etcd/fake_etcd.hpp"
#include "net/io_fixture.hpp"
#include "net/tls_fixture.hpp"
#include "osm/certificate/etcd_ca.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;

namespace {

using certificate::CaStore;
using certificate::PrivateKey;
using etcd_test::contains;
using etcd_test::FakeEtcd;

constexpr const char* kPem = "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n";
constexpr const char* kOther = "-----BEGIN PRIVATE KEY-----\nother\n-----END PRIVATE KEY-----\n";

struct Client : etcd_test::ClientOptions {
  using ClientOptions::ClientOptions;

  std::unique_ptr<CaStore> store() {
    auto made = etcd::make_ca_store(options);
    REQUIRE_MESSAGE(made.ok(), made.error().text());
    return *std::move(made);
  }
  Error refused() const {
    const auto made = etcd::make_ca_store(options);
    REQUIRE_FALSE(made.ok());
    return made.error();
  }
};

std::string loaded(CaStore& store) {
  const auto pem = store.load();
  REQUIRE_MESSAGE(pem.ok(), pem.error().text());
  return *pem ? (*pem)->pem() : "nothing";
}

// Nothing listens there any more.
std::string deserted_url() { return FakeEtcd().url(); }

TEST_SUITE("etcd::make_ca_store") {
  TEST_CASE("the first CA that is created stays, and everybody reads it") {
    FakeEtcd etcd;
    Client client({etcd.url()});
    const auto mine = client.store();
    const auto theirs = client.store();
    CHECK(loaded(*mine) == "nothing");
    REQUIRE(mine->create(PrivateKey(kPem)).ok());
    CHECK(loaded(*theirs) == kPem);
    CHECK(theirs->create(PrivateKey(kOther)).ok());  // too late, and no failure
    CHECK(loaded(*theirs) == kPem);
    CHECK(loaded(*mine) == kPem);
  }

  TEST_CASE("all replicas get the same issuer from etcd") {
    FakeEtcd etcd;
    Client client({etcd.url()});
    const auto store = client.store();
    const testing::ManualClock clock;
    const auto load = [&] {
      auto issuer = certificate::load_or_create_ca(
          {.store = *store, .trust_domain = TrustDomain("cluster.local"), .clock = clock});
      REQUIRE_MESSAGE(issuer.ok(), issuer.error().text());
      return (*issuer)->id();
    };
    CHECK(load() == load());
  }

  TEST_CASE("a CA that etcd lost is not made anew while a record trusts it") {
    FakeEtcd etcd;
    Client client({etcd.url()});
    const auto store = client.store();
    const testing::ManualClock clock;
    const auto lost = certificate::load_or_create_ca({.store = *store,
                                                      .trust_domain = TrustDomain("cluster.local"),
                                                      .clock = clock,
                                                      .known = {"PEM", "rotation.json"}});
    REQUIRE_FALSE(lost.ok());
    CHECK(lost.error().code == ErrorCode::kNotFound);
    CHECK(loaded(*store) == "nothing");
  }

  TEST_CASE("each CA has a key of its own") {
    FakeEtcd etcd;
    Client client({etcd.url()});
    REQUIRE(client.store()->create(PrivateKey(kPem)).ok());
    client.options.key = "/other/\"mesh\"";
    const auto other = client.store();
    CHECK(loaded(*other) == "nothing");
    REQUIRE(other->create(PrivateKey(kOther)).ok());
    CHECK(loaded(*other) == kOther);
    CHECK(etcd.keys().values.contains("/osm/ca"));
    CHECK(etcd.keys().values.contains("/other/\"mesh\""));
  }

  TEST_CASE("an endpoint that is away or has no leader is followed by the next") {
    const auto keys = std::make_shared<etcd_test::Keys>();
    FakeEtcd leaderless(keys);
    FakeEtcd well(keys);
    leaderless.set_fault(FakeEtcd::refusal(503, 14, "etcdserver: request timed out"));
    Client client({deserted_url(), leaderless.url(), well.url()});
    const auto store = client.store();
    REQUIRE(store->create(PrivateKey(kPem)).ok());
    CHECK(loaded(*store) == kPem);
    CHECK(leaderless.asked() == 1);  // the one that answered is asked first
  }

  TEST_CASE("if no endpoint answers, the error has each endpoint's reason and a remedy") {
    FakeEtcd leaderless;
    leaderless.set_fault(FakeEtcd::refusal(503, 14, "etcdserver: request timed out"));
    const std::string away = deserted_url();
    Client client({away, leaderless.url()});
    const auto store = client.store();
    for (const Status& status :
         {store->create(PrivateKey(kPem)), [&]() -> Status { return store->load().error(); }()}) {
      REQUIRE_FALSE(status.ok());
      CHECK(status.error().code == ErrorCode::kUnavailable);
      CHECK(contains(status.error().message, "key /osm/ca"));
      CHECK(contains(status.error().message, away));
      CHECK(contains(status.error().message, leaderless.url() + ": answers HTTP 503"));
      CHECK(contains(status.error().message, "request timed out"));
      CHECK(contains(status.error().message, "see that etcd runs there"));
      CHECK(status.error().message.find("s3cret") == std::string::npos);
    }
    leaderless.set_fault(std::nullopt);  // it is back
    REQUIRE(store->create(PrivateKey(kPem)).ok());
    CHECK(loaded(*store) == kPem);
  }

  TEST_CASE("a creation whose answer was lost is a creation") {
    const auto keys = std::make_shared<etcd_test::Keys>();
    FakeEtcd cut(keys);
    FakeEtcd well(keys);
    cut.set_fault(FakeEtcd::refusal(503, 14, "transport is closing"), true);
    Client client({cut.url(), well.url()});
    const auto store = client.store();
    REQUIRE(store->create(PrivateKey(kPem)).ok());
    CHECK(loaded(*store) == kPem);
    CHECK(keys->revision == 2);  // written once
  }

  TEST_CASE("a refusal is believed at once, in etcd's words and with the remedy") {
    FakeEtcd strict;
    FakeEtcd other;
    strict.set_fault(FakeEtcd::refusal(403, 7, "etcdserver: permission denied"));
    Client client({strict.url(), other.url()});
    const auto refused = client.store()->load();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK(contains(refused.error().message, strict.url() + ": etcdserver: permission denied"));
    CHECK(contains(refused.error().message, "read and write key /osm/ca"));
    CHECK(other.asked() == 0);
  }

  TEST_CASE("a user logs in with the password of a file, which no error tells") {
    FakeEtcd etcd;
    etcd.require("osm", "pass\"word");
    Client client({etcd.url()});
    const auto nobody = client.store()->load();
    REQUIRE_FALSE(nobody.ok());
    CHECK(nobody.error().code == ErrorCode::kPermissionDenied);
    CHECK(contains(nobody.error().message, "give a user of etcd"));

    client.options.user = "osm";
    client.options.password_file = client.file("password", "wrong\n");
    const auto store = client.store();
    const auto wrong = store->load();
    REQUIRE_FALSE(wrong.ok());
    CHECK(wrong.error().code == ErrorCode::kPermissionDenied);
    CHECK(wrong.error().message.find("wrong") == std::string::npos);

    client.file("password", "pass\"word\n");  // mended while it runs
    REQUIRE(store->create(PrivateKey(kPem)).ok());
    CHECK(loaded(*store) == kPem);
  }

  TEST_CASE("a user for an etcd without users is told so") {
    FakeEtcd etcd;
    Client client({etcd.url()});
    client.options.user = "osm";
    client.options.password_file = client.file("password", "any");
    const auto refused = client.store()->load();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidArgument);
    CHECK(contains(refused.error().message, "leave the user out"));
  }

  TEST_CASE("the error for a client certificate with a common name has the remedy") {
    FakeEtcd etcd;
    etcd.set_fault(net::text_response(
        "CommonName of client sending a request against gateway will be ignored\n", 400));
    Client client({etcd.url()});
    const auto refused = client.store()->load();
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK(contains(refused.error().message, "against gateway will be ignored; with"));
    CHECK(contains(refused.error().message, "without a common name"));
  }

  TEST_CASE("a server that is no etcd differs from an empty etcd") {
    FakeEtcd other;
    Client client({other.url()});
    const auto store = client.store();
    const auto error_for = [&](net::Response response) {
      other.set_fault(std::move(response));
      const auto answer = store->load();
      REQUIRE_FALSE(answer.ok());
      return answer.error();
    };
    const Error missing = error_for(net::text_response("404 page not found", 404));
    CHECK(missing.code == ErrorCode::kInvalidArgument);
    CHECK(contains(missing.message, "no etcd of version 3.4 or later"));
    for (const char* body :
         {"<html>", "[]", R"({"kvs":[7]})", R"({"kvs":[{"value":"no base64"}]})"}) {
      const Error error = error_for(net::json_response(body));
      CHECK(error.code == ErrorCode::kInvalidSyntax);
      CHECK(contains(error.message, "key /osm/ca"));
    }
  }

  TEST_CASE("over TLS the server is verified with the CA of a file, which may be exchanged") {
    const net::TestCa ca;
    const net::TestCa theirs;
    const auto certificate = ca.issue("IP:127.0.0.1");
    FakeEtcd etcd(std::make_shared<etcd_test::Keys>(), [&] { return certificate; });
    Client client({etcd.url("https")});
    client.options.ca_file = client.file("ca.crt", theirs.root_pem());
    const auto store = client.store();
    const auto stranger = store->load();
    REQUIRE_FALSE(stranger.ok());
    CHECK(stranger.error().code == ErrorCode::kUnavailable);
    CHECK(contains(stranger.error().message, "certificate"));
    CHECK(etcd.asked() == 0);
    client.file("ca.crt", ca.root_pem());
    CHECK(loaded(*store) == "nothing");
  }

  TEST_CASE("invalid options are refused before any request, with the remedy") {
    Client client({"https://10.0.0.1"});
    CHECK(contains(client.store()->name(), "https://10.0.0.1:2379"));
    for (const auto& [endpoint, remedy] : std::vector<std::pair<std::string, std::string>>{
             {"10.0.0.1:2379", "write https://HOST:2379"},
             {"unix:/run/etcd", "write https://HOST:2379"},
             {"https://10.0.0.1:2379/v3", "write https://HOST:2379"},
             {"https://user@10.0.0.1", "write https://HOST:2379"},
             {"https://unix:2379", "write https://HOST:2379"},
             {"https://10.0.0.1:etcd", "the port"},
             {"http://10.0.0.1:2379", "would show the CA's key to the network"},
             {"http://localhost.example", "would show the CA's key to the network"},
             {"http://127.0.0.1.example:2379", "would show the CA's key to the network"}}) {
      client.options.endpoints = {"https://10.0.0.2", endpoint};
      const Error error = client.refused();
      CHECK(error.code == ErrorCode::kInvalidArgument);
      CHECK(contains(error.message, "'" + endpoint + "'"));
      CHECK(contains(error.message, remedy));
    }
    for (const char* local : {"http://localhost", "http://127.1.2.3:99", "http://[::1]:2379"}) {
      client.options.endpoints = {local};
      CHECK(etcd::make_ca_store(client.options).ok());
    }
    client.options.endpoints = {};
    CHECK(contains(client.refused().message, "name at least one"));
  }

  TEST_CASE("options that belong together are asked for together, and files are read at once") {
    const auto refused = [](auto change) {
      Client client({"https://10.0.0.1"});
      change(client.options);
      return client.refused();
    };
    CHECK(contains(refused([](auto& o) { o.key = ""; }).message, "name one, such as /osm/ca"));
    CHECK(contains(refused([](auto& o) { o.key_file = "x"; }).message, "together"));
    CHECK(contains(refused([](auto& o) { o.certificate_file = "x"; }).message, "together"));
    CHECK(contains(refused([](auto& o) { o.user = "x"; }).message, "together"));
    const Error missing = refused([](auto& o) { o.ca_file = "/nowhere/ca.crt"; });
    CHECK(missing.code == ErrorCode::kUnreadableSource);
    CHECK(contains(missing.message, "/nowhere/ca.crt: cannot be read: No such file or directory"));
  }
}

}  // namespace
