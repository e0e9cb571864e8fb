#include "azure/arm.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "azure/caller.hpp"
#include "base/maps.hpp"

namespace osm::inline v1::azure {
namespace {

using std::chrono::seconds;

// Versions of ARM's API that the readers in answers.cpp are written for. Network interfaces of
// scale sets are in an API of their own, whose version this is in Azure's SDKs too.
constexpr const char* kCompute = "?api-version=2024-07-01";
constexpr const char* kNetwork = "?api-version=2024-05-01";
constexpr const char* kScaleSetNetwork = "?api-version=2018-10-01";

constexpr std::size_t kMaxPages = 100;
constexpr seconds kPause(30);  // if ARM throttles without Retry-After

std::string_view header_of(const net::Response& response, std::string_view wanted) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (const auto& [name, value] : response.headers)
    if (std::equal(name.begin(), name.end(), wanted.begin(), wanted.end(),
                   [&](char a, char b) { return lower(a) == lower(b); }))
      return value;
  return {};
}

void take_out(std::string& text, std::string_view secret) {
  if (secret.empty()) return;
  for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at))
    text.replace(at, secret.size(), "[secret]");
}

ErrorCode code_of(int status) {
  if (status == 404) return ErrorCode::kNotFound;
  if (status == 401 || status == 403) return ErrorCode::kPermissionDenied;
  return status == 429 || status >= 500 ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument;
}

std::string path_of(const std::string& target) { return target.substr(0, target.find('?')); }

}  // namespace

Arm::Arm(const AzureResolverOptions& options, const Server& server, std::unique_ptr<Tokens> tokens,
         Ending& ending)
    : options_(options), tokens_(std::move(tokens)), caller_(server, options, ending) {}

Result<std::unique_ptr<Arm>> Arm::make(const AzureResolverOptions& options, Ending& ending) {
  OSM_TRY(const Server server, parse_server(options.settings.endpoint));
  if (!server.tls && !server.address.is_this_machine())
    return Error{ErrorCode::kInvalidField, "the endpoint must begin with https://"};
  OSM_TRY(auto tokens, Tokens::make(options, ending));
  return std::unique_ptr<Arm>(new Arm(options, server, std::move(tokens), ending));
}

std::optional<SteadyTime> Arm::paused_until() const {
  const std::lock_guard lock(mutex_);
  return paused_until_;
}

Result<net::Response> Arm::send(std::string_view operation, const std::string& target,
                                const SecretBytes& token) {
  net::HttpRequest request{.target = target};
  request.headers = {{"Accept", "application/json"}, {"Authorization", "Bearer " + token.text()}};
  auto response = caller_.call(std::move(request));
  const std::string code = response ? std::to_string(response->status)
                                    : std::string(error_code_text(response.error().code));
  options_.runtime.metrics.add(kAzureRequests,
                               {{"operation", std::string(operation)}, {"code", code}}, 1);
  if (!response)
    return Error{ErrorCode::kUnavailable,
                 caller_.server().address.str() + " is not reached: " + response.error().message};
  return response;
}

Error Arm::refusal(const std::string& target, const net::Response& response,
                   const SecretBytes& token) {
  const int status = response.status;
  if (status == 429 || status == 503) {
    const seconds wait = retry_after_of(header_of(response, "Retry-After"), kPause);
    const std::lock_guard lock(mutex_);
    paused_until_ = options_.runtime.clock.steady_now() + wait;
  }
  std::string words = error_of(response.body);
  take_out(words, token.text());
  std::string_view remedy;
  if (status == 403) remedy = "; give the identity the role Reader on the resource";
  if (status == 404) remedy = "; correct spec.resourceID";
  if (status == 429) remedy = "; ask less often (interval), or for fewer resources";
  return {code_of(status), "ARM answered " + std::to_string(status) + " for " + path_of(target) +
                               (words.empty() ? "" : " (" + words + ")") + std::string(remedy)};
}

// One request. Another token is taken once if ARM does not take this one.
Result<std::string> Arm::get(std::string_view operation, const std::string& target) {
  for (bool again = true;; again = false) {
    if (const auto pause = paused_until(); pause && options_.runtime.clock.steady_now() < *pause)
      return Error{ErrorCode::kUnavailable, "ARM asked for no requests for a time (Retry-After)"};
    const auto token = tokens_->token();
    if (!token) return Error{ErrorCode::kUnavailable, token.error().message};
    OSM_TRY(net::Response response, send(operation, target, *token));
    if (response.status == 200) return std::move(response.body);
    if (response.status != 401 || !again) return refusal(target, response, *token);
    tokens_->refused(*token);
  }
}

// The next page is asked for at the endpoint only: the token must go to no other server.
template <class Item>
Result<std::vector<Item>> Arm::get_pages(std::string_view operation, std::string target,
                                         Result<Page<Item>> (*read)(std::string_view body)) {
  std::vector<Item> out;
  for (std::size_t pages = 0; pages < kMaxPages; ++pages) {
    OSM_TRY(const std::string body, get(operation, target));
    OSM_TRY(Page<Item> page, read(body));
    std::move(page.items.begin(), page.items.end(), std::back_inserter(out));
    if (page.next.empty()) return out;
    const auto next = target_at(caller_.server(), page.next);
    if (!next)
      return Error{ErrorCode::kInternal, "ARM's list of " + path_of(target) +
                                             " continues at another server than the endpoint; "
                                             "correct the setting endpoint"};
    target = *next;
  }
  return Error{ErrorCode::kTooLarge,
               path_of(target) + " has more than " + std::to_string(kMaxPages) + " pages"};
}

Result<Resolution> Arm::resolve_machine(const std::string& id) {
  OSM_TRY(const std::string body, get("machine", id + kCompute + "&$expand=instanceView"));
  OSM_TRY(const VirtualMachine machine, read_virtual_machine(body));
  if (!is_interface_id(machine.interface))
    return Error{ErrorCode::kInvalidArgument,
                 id + " has no primary network interface; attach one, or mark it"};
  OSM_TRY(const std::string found, get("interface", machine.interface + kNetwork));
  OSM_TRY(const Interface interface, read_interface(found));
  if (interface.address.empty())
    return Error{ErrorCode::kInvalidArgument,
                 machine.interface + " has no primary private IPv4 address; give it one"};
  return Resolution{.instances = {{.address = interface.address,
                                   .zone = machine.zone,
                                   .healthy = machine.running.value_or(true)}}};
}

Result<Resolution> Arm::resolve_scale_set(const std::string& id) {
  OSM_TRY(const std::string body, get("scale-set", id + kCompute));
  OSM_TRY(const ScaleSet set, read_scale_set(body));
  // ARM's lists of such a set are empty, which would look like a set without instances.
  if (set.flexible)
    return Error{ErrorCode::kInvalidArgument,
                 id + " has no endpoints: it is in flexible orchestration mode, in which ARM does "
                      "not list the instances of a set; write an AzureResource for each of its "
                      "virtual machines"};
  OSM_TRY(const auto interfaces,
          get_pages<Interface>("scale-set-interfaces", id + "/networkInterfaces" + kScaleSetNetwork,
                               read_interfaces));
  OSM_TRY(const auto instances,
          get_pages<Instance>("scale-set-instances",
                              id + "/virtualMachines" + kCompute + "&$expand=instanceView",
                              read_instances));
  std::map<std::string, const Instance*> by_id;
  for (const Instance& instance : instances) by_id.emplace(instance.id, &instance);
  std::map<std::string, ResourceInstance> out;
  for (const Interface& interface : interfaces) {
    // An instance that is being made has no address yet.
    if (!interface.primary || interface.address.empty() || interface.instance.empty()) continue;
    ResourceInstance made{.name = interface.instance, .address = interface.address};
    if (const auto* known = find_in(by_id, interface.instance)) {
      made.zone = (*known)->zone;
      made.healthy = (*known)->running.value_or(true);
    }
    out.insert_or_assign(interface.instance, std::move(made));
  }
  Resolution resolution{.scales = true};
  for (auto& [name, instance] : out) resolution.instances.push_back(std::move(instance));
  return resolution;
}

Result<Resolution> Arm::resolve(const ResourceId& id) {
  return id.kind == ResourceKind::kVirtualMachine ? resolve_machine(id.text)
                                                  : resolve_scale_set(id.text);
}

}  // namespace osm::inline v1::azure
