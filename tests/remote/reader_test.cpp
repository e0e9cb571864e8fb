// Names, addresses and accounts that a provider may not list are left out alone and named;
// problems are bounded.
#include "remote/reader.hpp"

#include <doctest/doctest.h>

#include "remote/provider_server.hpp"

using namespace osm;
using namespace osm::remote;

namespace {

const ServiceName kBooks{"shop", "books"};

Endpoint endpoint_of(const std::string& address, const std::string& account) {
  Endpoint endpoint;
  endpoint.address = address;
  endpoint.port = Port(80);
  endpoint.identity = {"shop", account};
  return endpoint;
}

Reader reader(std::vector<AllowedAccounts> allow) {
  return Reader({.name = "consul", .address = "unix:/run/p.sock", .allow = std::move(allow)},
                TrustDomain("cluster.local"));
}

Edits read(const proto::WatchResponse& message,
           std::vector<AllowedAccounts> allow = {{.ns = "shop"}}) {
  return reader(std::move(allow)).read(message);
}

// The only problem.
std::string problem_of(const std::vector<Problem>& problems) {
  REQUIRE(problems.size() == 1);
  return problems.front().text();
}

proto::Workload& add_workload(proto::WatchResponse& message, const std::string& name) {
  auto& workload = *message.add_workloads();
  workload.set_namespace_("shop");
  workload.set_name(name);
  workload.set_service_account("books");
  workload.set_address("10.0.0.1");
  return workload;
}

}  // namespace

TEST_SUITE("remote::Reader") {
  TEST_CASE("an endpoint under an account that is not allowed is left out alone, and named") {
    proto::WatchResponse message;
    testing::add_service(message, kBooks,
                         {{endpoint_of("10.0.0.1", "books"), endpoint_of("10.0.0.2", "admin")}});
    const Edits edits = read(message, {{.ns = "shop", .accounts = {{"books", "music"}}}});
    const auto& received = edits.services.at(kBooks);
    CHECK(received.value == std::vector{endpoint_of("10.0.0.1", "books")});
    CHECK(
        problem_of(received.problems) ==
        "provider consul: Service shop/books: endpoints['10.0.0.2:80'].service_account: provider "
        "consul may not name account 'shop/admin'; if it should, add the account to the provider's "
        "`allow` in the file of --providers [permission-denied]");
  }

  TEST_CASE("a service of a namespace that is not allowed is left out, also without endpoints") {
    proto::WatchResponse message;
    testing::add_service(message, {"bank", "vault"}, std::vector<Endpoint>{});
    const Edits edits = read(message);
    const auto& received = edits.services.at({"bank", "vault"});
    CHECK_FALSE(received.value);
    CHECK(problem_of(received.problems).find("may not list services of namespace bank") !=
          std::string::npos);
  }

  TEST_CASE("an empty list of accounts allows none; several entries of a namespace add up") {
    proto::WatchResponse message;
    testing::add_service(message, kBooks, {{endpoint_of("10.0.0.1", "books")}});
    const auto count = [&](std::vector<AllowedAccounts> allow) {
      return read(message, std::move(allow)).services.at(kBooks).value->size();
    };
    const std::vector<std::string> none, music{"music"}, books{"books"};
    CHECK(count({{.ns = "shop", .accounts = none}}) == 0);
    CHECK(count({{.ns = "shop", .accounts = music}, {.ns = "shop", .accounts = books}}) == 1);
    CHECK(count({{.ns = "shop", .accounts = music}, {.ns = "shop"}}) == 1);
    CHECK(count({{.ns = "shop"}, {.ns = "shop", .accounts = music}}) == 1);
  }

  TEST_CASE("names, addresses, ports and accounts that cannot be are left out alone") {
    proto::WatchResponse message;
    testing::add_service(message, {"shop", "Books"}, std::vector<Endpoint>{});
    testing::add_service(message, {"shop", "a\nb"}, std::vector<Endpoint>{});
    testing::add_service(message, kBooks, {{endpoint_of("10.0.0.1", "books")}});
    auto& service = *message.mutable_services(2);
    *service.add_endpoints() = service.endpoints(0);
    service.mutable_endpoints(1)->set_address("books.example.com");
    *service.add_endpoints() = service.endpoints(0);
    service.mutable_endpoints(2)->set_port(65536);
    *service.add_endpoints() = service.endpoints(0);
    service.mutable_endpoints(3)->set_service_account("elsewhere/books");
    *service.add_endpoints() = service.endpoints(0);
    service.mutable_endpoints(4)->set_zone(std::string(300, 'z'));
    const Edits edits = read(message);
    CHECK(edits.unnamed.size() == 2);
    CHECK(edits.unnamed.back().text().find('\n') == std::string::npos);
    REQUIRE(edits.services.size() == 1);
    CHECK(edits.services.at(kBooks).value == std::vector{endpoint_of("10.0.0.1", "books")});
    CHECK(edits.services.at(kBooks).problems.size() == 4);
  }

  TEST_CASE("problems of one service are bounded") {
    proto::WatchResponse message;
    std::vector<Endpoint> many;
    for (int n = 0; n < 1000; ++n) many.push_back(endpoint_of("10.0.0.1", "admin"));
    testing::add_service(message, kBooks, many);
    const Edits edits = read(message, {{.ns = "shop", .accounts = {{"books"}}}});
    const auto& received = edits.services.at(kBooks);
    CHECK(received.value->empty());
    CHECK(received.problems.size() == 10);
  }

  TEST_CASE("a workload has the UUID that is given, or the one of its name") {
    proto::WatchResponse message;
    add_workload(message, "one");
    add_workload(message, "two").set_proxy_uuid("6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a");
    const Edits edits = read(message);
    const auto& one = edits.workloads.at({"shop", "one"});
    REQUIRE(one.value);
    CHECK(one.value->proxy_id == derived_proxy_id(TrustDomain("cluster.local"), {"shop", "one"}));
    CHECK(one.value->account == ServiceAccount{"shop", "books"});
    CHECK(one.value->kind == WorkloadKind::kMachine);
    CHECK(edits.workloads.at({"shop", "two"}).value->proxy_id.str() ==
          "6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a");
  }

  TEST_CASE("a workload with a fault is left out, and each fault is named") {
    proto::WatchResponse message;
    std::string part;
    auto& workload = add_workload(message, "one");
    SUBCASE("UUID") {
      workload.set_proxy_uuid("6F2C1A34-8D1E-4C5B-9A70-3E2F1D0C9B8A");
      part = "proxy_uuid: a proxy's UUID must be in lower case";
    }
    SUBCASE("account") {
      workload.set_service_account("admin");
      part = "service_account: provider consul may not name account 'shop/admin'";
    }
    SUBCASE("address") {
      workload.set_address("one.example.com");
      part = "its address 'one.example.com' is no IPv4 or IPv6 literal";
    }
    SUBCASE("port") {
      (*workload.mutable_ports())["http"] = 70000;
      part = "ports: 'http': give each port a name";
    }
    SUBCASE("label") {
      (*workload.mutable_labels())[std::string(300, 'x')] = "";
      part = "is too long";
    }
    const Edits edits = read(message, {{.ns = "shop", .accounts = {{"books"}}}});
    const auto& received = edits.workloads.at({"shop", "one"});
    CHECK_FALSE(received.value);
    CHECK(problem_of(received.problems).find(part) != std::string::npos);
  }
}

TEST_SUITE("remote::Content") {
  TEST_CASE("problems beyond a hundred are counted, and go when their cause goes") {
    Content content;
    const RemoteLimits limits;
    Changes changes;
    for (int n = 0; n < 30; ++n) {
      proto::WatchResponse message;
      std::vector<Endpoint> many(10, endpoint_of("10.0.0.1", "admin"));
      testing::add_service(message, {"shop", "s" + std::to_string(n)}, many);
      REQUIRE(content.put(read(message, {{.ns = "shop", .accounts = {{"books"}}}}), limits, changes)
                  .ok());
    }
    CHECK(changes.problems);
    REQUIRE(content.problems().size() == 101);
    CHECK(content.problems().back().cause == "200 more problems of this provider are not shown");
    for (int n = 0; n < 30; ++n) {
      proto::WatchResponse message;
      testing::add_service(message, {"shop", "s" + std::to_string(n)}, std::nullopt);
      REQUIRE(content.put(read(message), limits, changes).ok());
    }
    CHECK(content.problems().empty());
    CHECK(content.service_count() == 0);
  }

  TEST_CASE("a list beyond the bounds changes nothing") {
    Content content;
    RemoteLimits limits;
    limits.endpoints = 2;
    Changes changes;
    proto::WatchResponse message;
    testing::add_service(message, kBooks, {{endpoint_of("10.0.0.1", "books")}});
    REQUIRE(content.put(read(message), limits, changes).ok());
    testing::add_service(message, {"shop", "music"},
                         {{endpoint_of("10.0.0.1", "books"), endpoint_of("10.0.0.2", "books")}});
    const Status put = content.put(read(message), limits, changes);
    REQUIRE_FALSE(put.ok());
    CHECK(put.error().code == ErrorCode::kTooLarge);
    CHECK(content.service_count() == 1);
    CHECK_FALSE(content.endpoints({"shop", "music"}));
  }
}
