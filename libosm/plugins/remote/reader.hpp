// Messages of a provider as edits: names, addresses and identities are checked here. What may not
// be listed is left out alone, with a problem that names it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "openservicemesh/provider/v1/provider.pb.h"
#include "osm/ids.hpp"
#include "osm/remote/provider.hpp"
#include "remote/content.hpp"

namespace osm::inline v1::remote {

namespace proto = openservicemesh::provider::v1;

class Reader {
 public:
  Reader(const RemoteProviderOptions& options, TrustDomain trust_domain);

  // Thread: any. Blocking: no.
  Edits read(const proto::WatchResponse& message) const;

  // "provider consul", as problems name it.
  const std::string& name() const { return name_; }

 private:
  // Empty: it is allowed. Else the remedy.
  std::string refusal_of(const ServiceAccount& account) const;
  bool may_name(const std::string& ns) const { return allowed_.contains(ns); }
  Problem problem(ErrorCode code, const ObjectKey& object, std::string field,
                  std::string cause) const;
  Received<std::vector<Endpoint>> read_service(const ServiceName& name,
                                               const proto::ServiceEndpoints& service) const;
  Received<Workload> read_workload(const WorkloadName& name, const proto::Workload& workload) const;

  const std::string name_;
  const TrustDomain trust_domain_;
  // By namespace; nullopt: all accounts.
  std::map<std::string, std::optional<std::set<std::string>>> allowed_;
};

}  // namespace osm::inline v1::remote
