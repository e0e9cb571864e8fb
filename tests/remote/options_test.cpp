// Options and the file of `--providers` are checked, and faults name file, line, field and remedy.
#include <doctest/doctest.h>

#include "lib/places.hpp"
#include "remote/remote_rig.hpp"

using namespace osm;
using namespace osm::remote_test;
using remote::AllowedAccounts;
using remote::RemoteProviderOptions;

namespace {

struct Case {
  const char* text;
  const char* message;  // a part of it, after the path
  ErrorCode code = ErrorCode::kInvalidField;
};

}  // namespace

TEST_SUITE("remote::make_remote_provider") {
  TEST_CASE("an option that cannot work is refused with its field and the remedy") {
    Rig rig;
    const auto refused = [&](const auto& edit) {
      RemoteProviderOptions options = rig.options;
      edit(options);
      const auto made = remote::make_remote_provider(options, {rig.runtime, kDomain});
      REQUIRE_FALSE(made.ok());
      CHECK(made.error().code == ErrorCode::kInvalidArgument);
      return made.error().message;
    };
    const auto contains = [](const std::string& text, const char* part) {
      CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    };
    contains(refused([](auto& o) { o.name = "Consul"; }), "name: must be a DNS label");
    contains(refused([](auto& o) { o.address = "consul"; }), "provider 'consul': address: ");
    contains(refused([](auto& o) { o.address = "unix:/" + std::string(107, 'x'); }),
             "longer than 107 bytes");
    contains(refused([](auto& o) { o.allow.clear(); }), "allow: is empty");
    contains(refused([](auto& o) { o.allow = {{.ns = "*"}}; }), "'*' is no namespace");
    contains(refused([](auto& o) { o.address = "127.0.0.1:9999"; }),
             "caFile: is required: a provider on HOST:PORT is asked over mutual TLS only");
    contains(refused([](auto& o) { o.ca_file = "ca.pem"; }), "caFile: is for HOST:PORT only");
    contains(refused([](auto& o) { o.heartbeat = std::chrono::seconds(0); }), "heartbeat");
  }
}

TEST_SUITE("remote::read_providers_file") {
  TEST_CASE("every field of the file is read") {
    Rig rig;
    const auto read = remote::read_providers_file(rig.folder.write("providers.yaml", R"(
- name: consul
  address: unix:/run/consul-provider/osm.sock
  user: consul
  allow:
  - {namespace: shop}
  - {namespace: bank, serviceAccounts: [teller, vault]}
  required: false
- name: inventory
  address: inventory.example.com:9443
  caFile: /etc/osm/inventory-ca.pem
  certificateFile: /etc/osm/controller.pem
  keyFile: /etc/osm/controller-key.pem
  serverName: inventory
  allow: [{namespace: shop, serviceAccounts: []}]
)"));
    REQUIRE_MESSAGE(read.ok(), read.error().text());
    REQUIRE(read->size() == 2);
    CHECK(read->front() ==
          RemoteProviderOptions{
              .name = "consul",
              .address = "unix:/run/consul-provider/osm.sock",
              .user = "consul",
              .allow = {{.ns = "shop"}, {.ns = "bank", .accounts = {{"teller", "vault"}}}},
              .required = false});
    CHECK(read->back() ==
          RemoteProviderOptions{.name = "inventory",
                                .address = "inventory.example.com:9443",
                                .ca_file = "/etc/osm/inventory-ca.pem",
                                .certificate_file = "/etc/osm/controller.pem",
                                .key_file = "/etc/osm/controller-key.pem",
                                .server_name = "inventory",
                                .allow = {{.ns = "shop", .accounts = std::vector<std::string>{}}}});
  }

  TEST_CASE("the file of the example is valid") {
    const auto read = remote::read_providers_file(
        (osm::testing::source_dir() / "examples/consul_provider/providers.yaml").string());
    REQUIRE_MESSAGE(read.ok(), read.error().text());
    CHECK(read->size() == 2);
  }

  TEST_CASE("a fault is named with file, line, field and remedy") {
    Rig rig;
    for (
        const Case& faulty : std::vector<Case>{
            {"name: consul", ":1: must be a list of providers"},
            {"- name: a\n  adress: unix:/a", ":2: [0].adress: no such field; known here: address,"},
            {"- {name: a, address: 'unix:/a'}", "[0]: provider 'a': allow: is empty"},
            {"- name: a\n  address: unix:/a\n  allow: [{serviceAccounts: [x]}]",
             ":3: [0].allow[0].namespace: required"},
            {"- name: a\n  address: unix:/a\n  allow:\n  - namespace: shop\n    serviceAccounts:",
             "[0].allow[0].serviceAccounts: must be a list of names; leave the field out to allow"},
            {"- {name: a, address: 'unix:/a', allow: [{namespace: s, serviceAccounts: [A]}]}",
             "'A' is no name of a ServiceAccount"},
            {"- {name: a, address: 'unix:/a', allow: [{namespace: s}], required: yes}",
             "[0].required: must be true or false"},
            {"- {name: a, address: '10.0.0.1:9', allow: [{namespace: s}]}", "caFile: is required"},
            {"- {name: a, name: b}", "[0].name: is there twice"},
            {"- {name: a, address: 'unix:/a', allow: [{namespace: s}]}\n"
             "- {name: a, address: 'unix:/b', allow: [{namespace: s}]}",
             ":2: [1].name: 'a' is the name of two providers"},
            {"- [", ":1: ", ErrorCode::kInvalidSyntax}}) {
      const std::string path = rig.folder.write("providers.yaml", faulty.text);
      const auto read = remote::read_providers_file(path);
      REQUIRE_FALSE(read.ok());
      CHECK(read.error().code == faulty.code);
      CHECK_MESSAGE(read.error().message.starts_with(path + ':'), read.error().message);
      CHECK_MESSAGE(read.error().message.find(faulty.message) != std::string::npos,
                    read.error().message);
    }
    CHECK(remote::read_providers_file(rig.folder.file("none.yaml")).error().code ==
          ErrorCode::kUnreadableSource);
  }
}
