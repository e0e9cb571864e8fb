#include "azure/answers.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <utility>

#include "base/json.hpp"
#include "base/secret_json.hpp"

namespace osm::inline v1::azure {
namespace {

namespace json = boost::json;
using std::chrono::seconds;

constexpr std::size_t kMaxItems = 5000;  // of one page
constexpr std::size_t kMaxWords = 300;
constexpr std::size_t kMaxToken = 16 * 1024;

Error not_arm(std::string_view what) {
  return {ErrorCode::kInternal, "the answer is not " + std::string(what) + " of ARM"};
}

// Foreign text is quoted in part, and as one line.
std::string quotable(std::string_view text) {
  std::string out(text.substr(0, kMaxWords));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, ' ');
  return out;
}

// A code such as "ResourceNotFound", or nothing.
std::string word(std::string text) {
  const bool one = text.size() <= 100 && std::all_of(text.begin(), text.end(), [](char c) {
                     return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-';
                   });
  return one ? text : "";
}

// https://learn.microsoft.com/azure/virtual-machines/states-billing
std::optional<bool> running(const json::object& properties) {
  std::optional<bool> out;
  for (const json::value& status : list_at(map_at(properties, "instanceView"), "statuses")) {
    const std::string code = text_at(status, "code");
    if (code.starts_with("PowerState/")) out = code == "PowerState/running";
  }
  return out;
}

std::optional<std::string> zone(const json::object& machine) {
  const json::array& zones = list_at(machine, "zones");
  const auto* text = zones.empty() ? nullptr : zones.front().if_string();
  if (text == nullptr || text->empty() || text->size() > 63) return std::nullopt;
  const std::string out = word(std::string(*text));
  return out.empty() ? std::nullopt : std::optional(out);
}

// The marked member of a list, or the only one.
const json::value* primary_of(const json::array& list) {
  for (const json::value& each : list)
    if (bool_at(map_at(each, "properties"), "primary").value_or(false)) return &each;
  return list.size() == 1 ? &list.front() : nullptr;
}

std::string address_of(const json::object& properties) {
  json::array ipv4;
  for (const json::value& each : list_at(properties, "ipConfigurations")) {
    const std::string version = text_at(map_at(each, "properties"), "privateIPAddressVersion");
    if (version.empty() || version == "IPv4") ipv4.push_back(each);
  }
  const json::value* chosen = primary_of(ipv4);
  return chosen == nullptr ? "" : text_at(map_at(*chosen, "properties"), "privateIPAddress");
}

// ".../virtualMachines/7" → "7"
std::string last_segment(const std::string& id) {
  const auto slash = id.rfind('/');
  return slash == std::string::npos ? "" : id.substr(slash + 1);
}

Interface interface_of(const json::object& map) {
  const json::object& properties = map_at(map, "properties");
  return {address_of(properties), last_segment(text_at(map_at(properties, "virtualMachine"), "id")),
          bool_at(properties, "primary").value_or(false)};
}

template <class Item, class Read>
Result<Page<Item>> read_page(std::string_view body, std::string_view what, const Read& read) {
  const auto map = parse_json_object(body, what);
  const json::value* list = map ? member(*map, "value") : nullptr;
  if (list == nullptr || !list->is_array()) return not_arm(what);
  if (list->get_array().size() > kMaxItems)
    return Error{ErrorCode::kTooLarge, "a page has more than " + std::to_string(kMaxItems) +
                                           " entries; ARM pages are smaller"};
  Page<Item> page{{}, text_at(*map, "nextLink")};
  for (const json::value& each : list->get_array())
    if (const auto* item = each.if_object()) page.items.push_back(read(*item));
  return page;
}

}  // namespace

Result<VirtualMachine> read_virtual_machine(std::string_view body) {
  const auto map = parse_json_object(body, "a machine");
  if (!map || !map->contains("properties")) return not_arm("a virtual machine");
  const json::object& properties = map_at(*map, "properties");
  const json::value* chosen =
      primary_of(list_at(map_at(properties, "networkProfile"), "networkInterfaces"));
  return VirtualMachine{chosen == nullptr ? "" : text_at(*chosen, "id"), running(properties),
                        zone(*map)};
}

Result<ScaleSet> read_scale_set(std::string_view body) {
  const auto map = parse_json_object(body, "a scale set");
  if (!map || !map->contains("properties")) return not_arm("a scale set");
  // Sets that are older than the modes have none written, and are uniform.
  return ScaleSet{text_at(map_at(*map, "properties"), "orchestrationMode") == "Flexible"};
}

Result<Interface> read_interface(std::string_view body) {
  const auto map = parse_json_object(body, "an interface");
  if (!map || !map->contains("properties")) return not_arm("a network interface");
  return interface_of(*map);
}

Result<Page<Interface>> read_interfaces(std::string_view body) {
  return read_page<Interface>(body, "a list of network interfaces", interface_of);
}

Result<Page<Instance>> read_instances(std::string_view body) {
  return read_page<Instance>(body, "a list of instances", [](const json::object& map) {
    return Instance{text_at(map, "instanceId"), running(map_at(map, "properties")), zone(map)};
  });
}

Result<Token> read_token(std::string_view body) {
  auto map = parse_json_object(body, "a token");
  if (!map) return Error{ErrorCode::kInternal, "the answer is no token"};
  const EraseJsonOnExit erased(*map);
  std::string text = text_at(*map, "access_token");
  // It goes into a header.
  const bool usable =
      !text.empty() && text.size() <= kMaxToken &&
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  // The authority writes a number, the metadata service a text.
  std::int64_t life = number_at(*map, "expires_in");
  const std::string written = text_at(*map, "expires_in");
  if (!written.empty()) std::from_chars(written.data(), written.data() + written.size(), life);
  Token token{SecretBytes(std::move(text)), seconds(std::clamp<std::int64_t>(life, 0, 86400))};
  if (!usable) return Error{ErrorCode::kInternal, "the answer has no usable access_token"};
  return token;
}

std::string error_of(std::string_view body) {
  const auto map = parse_json_object(body, "an error");
  if (!map) return "";
  const json::object& error = map_at(*map, "error");
  const std::string code = word(text_at(error, "code"));
  const std::string words = quotable(text_at(error, "message"));
  return code.empty() || words.empty() ? code + words : code + ": " + words;
}

std::string token_error_of(std::string_view body) {
  const auto map = parse_json_object(body, "an error");
  return map ? word(text_at(*map, "error")) : "";
}

seconds retry_after_of(std::string_view header, seconds otherwise) {
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(header.data(), header.data() + header.size(), value);
  if (fault != std::errc() || end != header.data() + header.size()) return otherwise;
  return seconds(std::clamp<std::int64_t>(value, 1, 3600));
}

}  // namespace osm::inline v1::azure
