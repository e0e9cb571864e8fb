// The file of --azure-config → settings: secrets go to https servers only, with one kind of
// credentials, and no refusal quotes a value.
//
//   input: '0', then the file; or '1', then a line with the field that holds a secret by mistake,
//   and the rest of the file.
#include "fuzz/fuzz.hpp"
#include "osm/spec/azure_resources.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

constexpr std::string_view kSecret = "s3cr3tw0rd";

void run(Choices choices) {
  std::string text;
  const bool secret = choices.flag();
  if (secret) {
    const std::string field = choices.line(64);
    const std::string rest(choices.rest());
    if (field.find(kSecret) != std::string::npos || rest.find(kSecret) != std::string::npos) return;
    text = field + ": \"" + std::string(kSecret) + " \"\n" + rest;
  } else {
    text = choices.rest();
  }
  const auto settings = azure::parse_azure_config(text);
  if (!settings.ok()) {
    require(!settings.error().message.empty(), "a refusal says why");
    require(!secret || settings.error().message.find(kSecret) == std::string::npos,
            "a refusal quotes no value", settings.error().message);
    return;
  }
  require(settings->client.has_value() != settings->managed.has_value(),
          "there is one kind of credentials");
  require(settings->interval >= std::chrono::seconds(5), "Azure is asked at most every 5 s");
  if (settings->client)
    require(!settings->client->tenant.empty() && !settings->client->client_id.empty() &&
                !settings->client->secret_file.empty(),
            "credentials are whole");
}

const bool kAdded = add("azure_config", [](std::string_view input) { run(Choices(input)); });

}  // namespace
