// The schedule of requests to ARM, and the last good answers.
//
// Each resource is asked for on its own, at most four at a time. States of a resource:
//
// | Answer            | Instances                         | Asked again after |
// |-------------------|-----------------------------------|-----------------------------------------|
// | its addresses     | these                             | the interval, and up to a quarter more
// | | 404               | the last ones, then none          | a back-off up to the interval; none |
// |                   |                                   | after `gone_after` of it | | another
// refusal   | the last ones                     | a back-off up to the interval           | | 429,
// 503          | the last ones                     | the time that ARM asked for, no request | | |
// | before                                  | | silence, no token | the last ones | a back-off up
// to the interval           |
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "osm/spec/azure_resources.hpp"

namespace osm::inline v1::azure {

class Arm;
class Ending;

class AzureResolver final : public ResourceResolver {
 public:
  AzureResolver(const AzureResolverOptions& options, std::unique_ptr<Ending> ending,
                std::unique_ptr<Arm> arm);
  ~AzureResolver() override;

  std::string id() const override { return "azure"; }
  void follow(std::set<std::string> ids) override;
  std::optional<Resolution> find(const std::string& id) const override;
  bool has_synced() const override;
  bool healthy() const override;
  std::vector<ResourceProblem> list_problems() const override;
  Subscription subscribe(std::function<void(const std::set<std::string>& ids)> on_change) override;

 private:
  struct Entry;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace osm::inline v1::azure
