// Bodies of ARM, the authority and the metadata service are read; anything else is refused without
// a quotation.
#include "azure/answers.hpp"

#include <doctest/doctest.h>

using namespace osm;
using namespace osm::azure;
using namespace std::chrono_literals;

TEST_SUITE("azure answers") {
  TEST_CASE("a machine has its primary interface, its state and its zone") {
    const auto machine = read_virtual_machine(R"({"zones": ["2"], "properties": {
      "networkProfile": {"networkInterfaces": [
        {"id": "/a", "properties": {"primary": false}},
        {"id": "/b", "properties": {"primary": true}}]},
      "instanceView": {"statuses": [{"code": "ProvisioningState/succeeded"},
                                    {"code": "PowerState/deallocated"}]}}})");
    REQUIRE(machine.ok());
    CHECK(machine->interface == "/b");
    CHECK(machine->running == false);
    CHECK(machine->zone == "2");
    const auto bare = read_virtual_machine(
        R"({"properties": {"networkProfile": {"networkInterfaces": [{"id": "/only"}]}}})");
    REQUIRE(bare.ok());
    CHECK(bare->interface == "/only");
    CHECK_FALSE(bare->running);
    CHECK_FALSE(bare->zone);
  }

  TEST_CASE("a scale set is flexible only if ARM says so") {
    const auto mode = [](const std::string& properties) {
      const auto set = read_scale_set(R"({"properties": )" + properties + "}");
      REQUIRE(set.ok());
      return set->flexible;
    };
    CHECK(mode(R"({"orchestrationMode": "Flexible"})"));
    CHECK_FALSE(mode(R"({"orchestrationMode": "Uniform"})"));
    CHECK_FALSE(mode("{}"));
  }

  TEST_CASE("an interface has its primary private IPv4 address") {
    const auto found = read_interface(R"({"properties": {"primary": true,
      "virtualMachine": {"id": "/x/virtualMachines/7"}, "ipConfigurations": [
        {"properties": {"privateIPAddress": "fd00::1", "privateIPAddressVersion": "IPv6",
                        "primary": true}},
        {"properties": {"privateIPAddress": "10.0.0.9", "primary": false}},
        {"properties": {"privateIPAddress": "10.0.0.7", "primary": true,
                        "privateIPAddressVersion": "IPv4"}}]}})");
    REQUIRE(found.ok());
    CHECK(found->address == "10.0.0.7");
    CHECK(found->instance == "7");
    CHECK(found->primary);
  }

  TEST_CASE("pages name the next one") {
    const auto interfaces =
        read_interfaces(R"({"value": [{"properties": {}}, 7, {}], "nextLink": "https://x/y"})");
    REQUIRE(interfaces.ok());
    CHECK(interfaces->items.size() == 2);
    CHECK(interfaces->next == "https://x/y");
    const auto instances = read_instances(R"({"value": [{"instanceId": "7", "properties":
      {"instanceView": {"statuses": [{"code": "PowerState/running"}]}}}]})");
    REQUIRE(instances.ok());
    CHECK(instances->next.empty());
    REQUIRE(instances->items.size() == 1);
    CHECK(instances->items[0].id == "7");
    CHECK(instances->items[0].running == true);
  }

  TEST_CASE("anything else is no answer of ARM, and is not quoted") {
    for (const char* body : {"", "secret", "[]", "{}", R"({"value": {}})", R"({"properties"})"}) {
      CHECK_FALSE(read_virtual_machine(body).ok());
      CHECK_FALSE(read_scale_set(body).ok());
      CHECK_FALSE(read_interface(body).ok());
      const auto page = read_interfaces(body);
      REQUIRE_FALSE(page.ok());
      CHECK(page.error().message.find("secret") == std::string::npos);
    }
  }

  TEST_CASE("tokens are read from the authority and from the metadata service") {
    const auto number = read_token(R"({"access_token": "abc", "expires_in": 3599})");
    REQUIRE(number.ok());
    CHECK(number->text.text() == "abc");
    CHECK(number->life == 3599s);
    const auto text = read_token(R"({"access_token": "abc", "expires_in": "86399"})");
    REQUIRE(text.ok());
    CHECK(text->life == 86399s);
    for (const char* body : {"{}", R"({"access_token": "a b"})", R"({"access_token": "a\r\nX: y"})",
                             R"({"access_token": 7})", "no"})
      CHECK_FALSE(read_token(body).ok());
  }

  TEST_CASE("errors are quoted in one line, and never what the authority says of a request") {
    CHECK(error_of(R"({"error": {"code": "NotFound", "message": "a\nb"}})") == "NotFound: a b");
    CHECK(error_of("<html>").empty());
    CHECK(error_of(R"({"error": {"message": ")" + std::string(1000, 'x') + "\"}}").size() == 300);
    CHECK(token_error_of(R"({"error": "invalid_client", "error_description": "s3cret"})") ==
          "invalid_client");
    CHECK(token_error_of(R"({"error": "s3cret of the app"})").empty());
  }

  TEST_CASE("Retry-After is a bounded number of seconds") {
    CHECK(retry_after_of("17", 30s) == 17s);
    CHECK(retry_after_of("0", 30s) == 1s);
    CHECK(retry_after_of("999999", 30s) == 3600s);
    for (const char* other : {"", "soon", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"})
      CHECK(retry_after_of(other, 30s) == 30s);
  }
}
