#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <utility>

#include "azure/url.hpp"
#include "osm/ids.hpp"
#include "osm/spec/azure_resources.hpp"

namespace osm::inline v1::azure {
namespace {

constexpr std::size_t kMaxBytes = 64 * 1024;
constexpr int kLeastInterval = 5;
constexpr int kLongestInterval = 3600;

Error fault(const std::string& field, const std::string& cause) {
  return {ErrorCode::kInvalidField, field + ": " + cause};
}

// A tenant or a client: it becomes a part of a request.
bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 253 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.';
  });
}

class Reader {
 public:
  Reader(const YAML::Node& map, std::string path) : map_(map), path_(std::move(path)) {}

  // Sets `to` if the field is there. Values are not quoted in errors: one may be a secret in the
  // wrong place.
  Status text(const std::string& name, std::string& to) {
    known_.insert(name);
    const YAML::Node node = map_[name];
    if (!node) return {};
    if (!node.IsScalar() || node.Scalar().empty()) return fault(path_ + name, "must be a text");
    to = node.Scalar();
    return {};
  }
  Status name(const std::string& field, std::string& to) {
    OSM_TRY(text(field, to));
    if (!to.empty() && !is_name(to))
      return fault(path_ + field, "must be a name or a UUID: letters, digits, '-' and '.'");
    return {};
  }
  Status server(const std::string& field, std::string& to) {
    OSM_TRY(text(field, to));
    if (const auto parsed = parse_server(to); !parsed)
      return fault(path_ + field, parsed.error().message);
    return {};
  }
  YAML::Node map(const std::string& name) {
    known_.insert(name);
    return map_[name];
  }
  // Last: fails for the first field that was not asked for.
  Status no_others() const {
    for (const auto& entry : map_)
      if (!entry.first.IsScalar() || !known_.contains(entry.first.Scalar()))
        return fault(path_ + (entry.first.IsScalar() ? entry.first.Scalar().substr(0, 64) : "?"),
                     "no such field; see docs/azure.md");
    return {};
  }

 private:
  const YAML::Node map_;
  const std::string path_;
  std::set<std::string> known_;
};

Status read_managed(const YAML::Node& node, AzureSettings& settings) {
  if (!node.IsMap() && !node.IsNull())
    return fault("managedIdentity", "must be a map; {} for the machine's own identity");
  settings.managed.emplace();
  if (node.IsNull()) return {};
  Reader reader(node, "managedIdentity.");
  OSM_TRY(reader.name("clientID", settings.managed->client_id));
  OSM_TRY(reader.server("endpoint", settings.managed->metadata));
  return reader.no_others();
}

Result<AzureSettings> read(const YAML::Node& root) {
  if (!root.IsMap()) return fault("the file", "must be a map; see docs/azure.md");
  AzureSettings out;
  ClientCredentials client;
  Reader reader(root, "");
  OSM_TRY(reader.server("endpoint", out.endpoint));
  OSM_TRY(reader.text("caFile", out.ca_file));
  OSM_TRY(reader.server("authority", client.authority));
  OSM_TRY(reader.name("tenant", client.tenant));
  OSM_TRY(reader.name("clientID", client.client_id));
  OSM_TRY(reader.text("clientSecretFile", client.secret_file));
  if (const YAML::Node managed = reader.map("managedIdentity"); managed.IsDefined()) {
    OSM_TRY(read_managed(managed, out));
  }
  if (const YAML::Node interval = reader.map("interval"); interval.IsDefined()) {
    int value = 0;
    if (!YAML::convert<int>::decode(interval, value) || value < kLeastInterval ||
        value > kLongestInterval)
      return fault("interval", "must be a number of seconds from " +
                                   std::to_string(kLeastInterval) + " to " +
                                   std::to_string(kLongestInterval));
    out.interval = std::chrono::seconds(value);
  }
  OSM_TRY(reader.no_others());
  const bool all =
      !client.tenant.empty() && !client.client_id.empty() && !client.secret_file.empty();
  const bool any =
      !client.tenant.empty() || !client.client_id.empty() || !client.secret_file.empty();
  if (any && out.managed)
    return fault("managedIdentity", "give either it, or tenant, clientID and clientSecretFile");
  if (!all && !out.managed)
    return fault("tenant, clientID, clientSecretFile",
                 "all three are required, or managedIdentity");
  if (all) out.client = std::move(client);
  return out;
}

}  // namespace

Result<AzureSettings> parse_azure_config(std::string_view yaml) {
  if (yaml.size() > kMaxBytes) return Error{ErrorCode::kTooLarge, "the file has more than 64 KiB"};
  try {
    return read(YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception& failed) {
    // Without its text, which may quote a value.
    return Error{ErrorCode::kInvalidSyntax,
                 "line " + std::to_string(failed.mark.line + 1) + " is not YAML"};
  }
}

}  // namespace osm::inline v1::azure
