// Ids, servers and the configuration file are checked; faults name their field and quote no value.
#include <doctest/doctest.h>

#include "azure/url.hpp"
#include "machines/azure_resource.hpp"
#include "osm/spec/azure_resources.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace osm::azure;

namespace {

const std::string kGroup =
    "/subscriptions/00000000-1111-4222-8333-444444444444/resourceGroups/My.Group_(1)";

std::vector<std::string> faults(const std::string& spec) {
  osm::testing::MemoryObjectStore store;
  const auto status = store.put_yaml(
      "apiVersion: workload.openservicemesh.io/v1alpha1\nkind: AzureResource\n"
      "metadata: {name: api, namespace: shop}\nspec: {" +
          spec + "}\n",
      "mesh/azure.yaml");
  REQUIRE(status.ok());
  std::vector<std::string> out;
  for (const auto& object : store.list(kinds::kAzureResource))
    for (const Problem& problem : decode_azure_resource(*object).problems)
      out.push_back(problem.field + ": " + problem.cause);
  return out;
}

}  // namespace

TEST_SUITE("azure::resource_id_of") {
  TEST_CASE("machines and scale sets have ids, in any case of letters and with /resource") {
    const std::string machine = kGroup + "/providers/Microsoft.Compute/virtualMachines/web-1";
    const std::string set = kGroup + "/providers/Microsoft.Compute/virtualMachineScaleSets/web";
    for (const std::string& text : {machine, "/resource" + machine}) {
      const auto id = resource_id_of(text);
      REQUIRE(id);
      CHECK(id->kind == ResourceKind::kVirtualMachine);
      CHECK(id->text == machine);
    }
    const auto lower = resource_id_of(
        "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/virtualmachines/x");
    REQUIRE(lower);
    CHECK(lower->text ==
          "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/x");
    REQUIRE(resource_id_of(set));
    CHECK(resource_id_of(set)->kind == ResourceKind::kScaleSet);
    CHECK(faults("serviceAccount: a, resourceID: '" + set + "'").empty());
  }

  TEST_CASE("anything else is refused, so that no request leaves its path") {
    const std::string tail = "/providers/Microsoft.Compute/virtualMachines/";
    for (const std::string& text :
         {std::string(), std::string("/"), kGroup, kGroup + tail, kGroup + tail + "a/b",
          kGroup + tail + "..", kGroup + tail + "a?x=1", kGroup + tail + "a%2f",
          kGroup + tail + "a b", kGroup + tail + "a\r\n", "https://x" + kGroup + tail + "a",
          kGroup + tail + "a/", kGroup + "/providers/Microsoft.Network/networkInterfaces/nic",
          kGroup + tail + std::string(100, 'x')})
      CHECK_MESSAGE(!resource_id_of(text), text);
    CHECK(is_interface_id(kGroup + "/providers/Microsoft.Network/networkInterfaces/nic"));
    CHECK_FALSE(is_interface_id(kGroup + tail + "nic"));
    const auto told = faults("serviceAccount: a, resourceID: /x");
    REQUIRE(told.size() == 1);
    CHECK(told[0].starts_with("spec.resourceID: must be the id of a virtual machine"));
    CHECK(faults("serviceAccount: a") == std::vector<std::string>{"spec.resourceID: required"});
  }
}

TEST_SUITE("azure servers") {
  TEST_CASE("a server is https, or this machine, or link-local") {
    CHECK(parse_server("https://management.azure.com")->address.port == 443);
    CHECK(parse_server("https://management.azure.com:8443/")->address.port == 8443);
    CHECK(parse_server("http://169.254.169.254")->address.port == 80);
    CHECK(parse_server("http://127.0.0.1:7")->address.port == 7);
    for (const char* bad : {"", "management.azure.com", "http://management.azure.com", "https://",
                            "https://a/b", "ftp://a", "https://user@a", "http://10.0.0.1:80"})
      CHECK_MESSAGE(!parse_server(bad).ok(), bad);
  }

  TEST_CASE("a page is followed at the same server only") {
    const Server server = *parse_server("https://management.azure.com");
    CHECK(target_at(server, "https://management.azure.com/a?b=c") == "/a?b=c");
    CHECK(target_at(server, "https://Management.Azure.com:443/a") == "/a");
    for (const char* bad :
         {"https://other.example/a", "http://management.azure.com/a",
          "https://management.azure.com:444/a", "https://management.azure.com.example/a",
          "https://management.azure.com@other.example/a", "/a", "https://management.azure.com",
          "https://management.azure.com/a b", "https://management.azure.com/a\r\nX: y"})
      CHECK_MESSAGE(!target_at(server, bad), bad);
  }
}

TEST_SUITE("azure::parse_azure_config") {
  TEST_CASE("client credentials and managed identities are read") {
    const auto client = parse_azure_config(
        "tenant: t.example\nclientID: c-1\nclientSecretFile: /etc/osm/secret\ncaFile: /ca.pem\n"
        "interval: 15\n");
    REQUIRE_MESSAGE(client.ok(), (client.ok() ? "" : client.error().text()));
    REQUIRE(client->client);
    CHECK(client->client->tenant == "t.example");
    CHECK(client->client->authority == "https://login.microsoftonline.com");
    CHECK(client->endpoint == "https://management.azure.com");
    CHECK(client->interval == std::chrono::seconds(15));
    CHECK_FALSE(client->managed);
    for (const char* text :
         {"managedIdentity: {}", "managedIdentity:",
          "managedIdentity: {clientID: c, endpoint: 'http://169.254.169.254'}"}) {
      const auto managed = parse_azure_config(text);
      REQUIRE_MESSAGE(managed.ok(), text);
      CHECK(managed->managed);
      CHECK_FALSE(managed->client);
    }
  }

  TEST_CASE("each fault names its field and quotes no value") {
    const std::pair<const char*, const char*> kCases[] = {
        {"", "the file: must be a map"},
        {"- a", "the file: must be a map"},
        {"{}", "tenant, clientID, clientSecretFile: all three are required"},
        {"tenant: t\nclientID: c", "tenant, clientID, clientSecretFile: all three are required"},
        {"tenant: 's3cret/x'\nclientID: c\nclientSecretFile: f", "tenant: must be a name"},
        {"tenant: t\nclientID: c\nclientSecret: s3cret", "clientSecret: no such field"},
        {"managedIdentity: {}\ntenant: t", "managedIdentity: give either it"},
        {"managedIdentity: s3cret", "managedIdentity: must be a map"},
        {"managedIdentity: {endpoint: 'http://10.0.0.1'}", "managedIdentity.endpoint: "},
        {"managedIdentity: {secret: s3cret}", "managedIdentity.secret: no such field"},
        {"managedIdentity: {}\nendpoint: http://management.azure.com", "endpoint: "},
        {"managedIdentity: {}\ninterval: 1", "interval: must be a number of seconds"},
        {"managedIdentity: {}\ninterval: s3cret", "interval: must be a number of seconds"},
        {"a: [s3cret", "line "},
    };
    for (const auto& [text, told] : kCases) {
      const auto read = parse_azure_config(text);
      REQUIRE_MESSAGE(!read.ok(), text);
      CHECK_MESSAGE(read.error().message.starts_with(told), read.error().message);
      CHECK_MESSAGE(read.error().message.find("s3cret") == std::string::npos, text);
    }
  }
}
