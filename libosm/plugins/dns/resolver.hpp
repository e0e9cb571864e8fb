// The schedule of questions to name servers, and the last good answers.
//
// One round is in flight at a time. A round asks for all names that are due, up to a bound; the
// rest follow in the next one. States of a name:
//
// | Answer      | Addresses                        | Asked again after                          |
// |-------------|----------------------------------|--------------------------------------------|
// | records     | theirs                           | their TTL, within bounds                   |
// | none of it  | the last ones                    | a back-off from 1 s to 30 s                |
// | NXDOMAIN    | the last ones, then none         | the same; none after `gone_after` of it    |
// | an error    | the last ones                    | the same                                   |
// | silence     | the last ones                    | the same                                   |
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/strand.hpp"
#include "dns/lookup.hpp"
#include "osm/notifier.hpp"
#include "osm/spec/dns_resources.hpp"

namespace osm::inline v1::dns {

class DnsResolver final : public ResourceResolver {
 public:
  DnsResolver(const DnsResolverOptions& options, Ask ask);
  ~DnsResolver() override;

  std::string id() const override { return "dns"; }
  void follow(std::set<std::string> ids) override;
  std::optional<Resolution> find(const std::string& id) const override;
  bool has_synced() const override;
  bool healthy() const override;
  std::vector<ResourceProblem> list_problems() const override;
  Subscription subscribe(std::function<void(const std::set<std::string>& ids)> on_change) override;

 private:
  struct Name;
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace osm::inline v1::dns
