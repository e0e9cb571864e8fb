#include "machines/azure_resource.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace osm::inline v1::azure {
namespace {

constexpr std::size_t kMaxId = 512;
constexpr std::size_t kMaxSegment = 90;

bool same(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [&](char x, char y) { return lower(x) == lower(y); });
}

// A name that is safe in a request's path.
bool is_segment(std::string_view text) {
  return !text.empty() && text.size() <= kMaxSegment && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.' || c == '(' || c == ')';
         });
}

// The segments of "/a/b"; empty: it is no such path.
std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> out;
  if (path.size() > kMaxId) return out;
  while (!path.empty()) {
    if (path.front() != '/') return {};
    path.remove_prefix(1);
    const auto end = std::min(path.find('/'), path.size());
    if (!is_segment(path.substr(0, end))) return {};
    out.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return out;
}

// "/subscriptions/<a>/resourceGroups/<b>/providers/<provider>/<type>/<c>", with the keywords in
// their own case; empty: it is none.
std::string canonical(const std::vector<std::string_view>& segments, std::string_view provider,
                      std::string_view type) {
  if (segments.size() != 8) return "";
  const std::array<std::string_view, 8> keywords = {
      "subscriptions", "", "resourceGroups", "", "providers", provider, type, ""};
  std::string out;
  for (std::size_t i = 0; i < keywords.size(); ++i) {
    if (!keywords[i].empty() && !same(segments[i], keywords[i])) return "";
    out.append("/").append(keywords[i].empty() ? segments[i] : keywords[i]);
  }
  return out;
}

void read(machines::MachineReader& reader) {
  const auto written = reader.text("resourceID", true);
  if (!written) return;
  const auto id = resource_id_of(*written);
  if (!id)
    reader.refuse("spec.resourceID",
                  "must be the id of a virtual machine or a scale set: /subscriptions/<id>/"
                  "resourceGroups/<group>/providers/Microsoft.Compute/virtualMachines/<name>, or "
                  ".../virtualMachineScaleSets/<name>");
  else
    reader.machine.resource = id->text;
}

}  // namespace

std::optional<ResourceId> resource_id_of(std::string_view text) {
  auto segments = segments_of(text);
  if (!segments.empty() && segments.front() == "resource") segments.erase(segments.begin());
  if (auto id = canonical(segments, "Microsoft.Compute", "virtualMachines"); !id.empty())
    return ResourceId{ResourceKind::kVirtualMachine, std::move(id)};
  if (auto id = canonical(segments, "Microsoft.Compute", "virtualMachineScaleSets"); !id.empty())
    return ResourceId{ResourceKind::kScaleSet, std::move(id)};
  return std::nullopt;
}

bool is_interface_id(std::string_view text) {
  return !canonical(segments_of(text), "Microsoft.Network", "networkInterfaces").empty();
}

machines::DecodedMachine decode_azure_resource(const Object& object) {
  static const machines::MachineForm kForm{
      .required = "resourceID and serviceAccount", .fields = {"resourceID"}, .read = read};
  return machines::decode_machine(object, kForm);
}

}  // namespace osm::inline v1::azure
