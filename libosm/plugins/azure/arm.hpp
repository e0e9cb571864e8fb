// Azure Resource Manager: an id of a machine or a scale set → its instances.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "azure/answers.hpp"
#include "azure/caller.hpp"
#include "azure/tokens.hpp"
#include "machines/azure_resource.hpp"
#include "osm/providers/resource_resolver.hpp"

namespace osm::inline v1::azure {

class Arm {
 public:
  // Failure: kInvalidField, a setting.
  static Result<std::unique_ptr<Arm>> make(const AzureResolverOptions& options, Ending& ending);

  // Failure: kNotFound (ARM has no such resource), kUnavailable (not reached, 5xx, throttled, no
  // token), others: ARM refuses, or answers something else. The message has ARM's words without
  // tokens. Thread: any. Blocking: until answered.
  Result<Resolution> resolve(const ResourceId& id);

  // ARM asked to wait until then (429 or 503 with Retry-After). Thread: any. Blocking: no.
  std::optional<SteadyTime> paused_until() const;
  // Reason why there is no token. Thread: any. Blocking: no.
  std::optional<Error> login_problem() const { return tokens_->problem(); }

 private:
  Arm(const AzureResolverOptions& options, const Server& server, std::unique_ptr<Tokens> tokens,
      Ending& ending);

  Result<std::string> get(std::string_view operation, const std::string& target);
  Result<net::Response> send(std::string_view operation, const std::string& target,
                             const SecretBytes& token);
  Error refusal(const std::string& target, const net::Response& response, const SecretBytes& token);
  template <class Item>
  Result<std::vector<Item>> get_pages(std::string_view operation, std::string target,
                                      Result<Page<Item>> (*read)(std::string_view body));
  Result<Resolution> resolve_machine(const std::string& id);
  Result<Resolution> resolve_scale_set(const std::string& id);

  const AzureResolverOptions options_;
  const std::unique_ptr<Tokens> tokens_;
  Caller caller_;
  mutable std::mutex mutex_;
  std::optional<SteadyTime> paused_until_;
};

}  // namespace osm::inline v1::azure
