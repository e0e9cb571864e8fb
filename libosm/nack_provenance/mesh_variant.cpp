#include "nack_provenance/mesh_variant.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace osm::inline v1::nack_provenance {
namespace {

// Services may share a port, which then checks paths if one of them does. So without a Service that
// checks them, the others of its namespace do.
Table<Service> with_checks_of(const ObjectSet& absent, const Table<Service>& all,
                              const Table<Service>& left) {
  std::set<std::string> namespaces;
  for (const ObjectKey& object : absent) {
    if (!object.is(kinds::kService)) continue;
    const auto service = all.find({object.ns, object.name});
    if (service && service->http_paths != HttpPaths::kUnchecked) namespaces.insert(object.ns);
  }
  if (namespaces.empty()) return left;
  std::map<ServiceName, Table<Service>::Entry> edits;
  for (const auto& service : left) {
    if (service->http_paths != HttpPaths::kUnchecked || !namespaces.contains(service->name.ns))
      continue;
    auto checked = std::make_shared<Service>(*service);
    checked->http_paths = HttpPaths::kStrict;
    edits.emplace(service->name, std::move(checked));
  }
  return left.edited(std::move(edits));
}

}  // namespace

MeshVariant::MeshVariant(const MeshInputs& inputs)
    : inputs_(inputs),
      domains_(inputs.trust_domains()),
      builder_([this] { return objects_; }, inputs.providers, inputs.workload_providers, domains_) {
  builder_.filter_announcements(*this);
}

void MeshVariant::follow(const Snapshot& newest) {
  const Snapshot before = std::exchange(newest_, newest);
  if (TrustDomains now = inputs_.trust_domains(); now != domains_) {
    domains_ = std::move(now);
    builder_.trust_domains_changed(domains_);
  }
  if (!last_) return;  // the builder reads everything at first
  const model::Changes& changes = newest->changes;
  const bool each_one_told = newest->generation == before->generation + 1;
  if (each_one_told) {
    announced_.services.insert(changes.endpoints.begin(), changes.endpoints.end());
    announced_.clients.insert(changes.identities.begin(), changes.identities.end());
  } else {
    for (const auto& known : newest->endpoints) announced_.services.insert(known->service);
    for (const auto& known : newest->policies) announced_.clients.insert(known->identity);
  }
  if (changes.everything || !each_one_told || has_failures()) {
    builder_.all_endpoints_changed();
    builder_.all_workloads_changed();
    return;
  }
  std::vector<ServiceName> services(changes.endpoints.begin(), changes.endpoints.end());
  services.insert(services.end(), changes.services.begin(), changes.services.end());
  builder_.endpoints_changed(services);
  std::vector<WorkloadName> workloads;
  for (const model::ProxyKey& key : changes.workloads)
    for (const Snapshot& mesh : {before, newest})
      if (const auto entry = mesh->workloads.find(key)) workloads.push_back(entry->workload.name);
  builder_.workloads_changed(workloads);
}

catalog::Announcements::Due MeshVariant::begin(const model::MeshSnapshot& next, bool) {
  announced_.smi_upstreams = newest_->smi_upstreams && next.config.proxy.permissive;
  return std::exchange(announced_, {});
}

void MeshVariant::filter(std::vector<model::IdentityPolicy>& policies) {
  for (model::IdentityPolicy& policy : policies) {
    const auto known = newest_->policies.find(policy.identity);
    if (!known || *known->upstreams == *policy.upstreams) continue;
    std::vector<model::Upstream> upstreams = *policy.upstreams;
    std::erase_if(upstreams, [&](const model::Upstream& upstream) {
      const auto service = newest_->services.find(upstream.service);
      const auto is_called = [&](const ServiceName& apex) {
        return model::find_upstream(*known->upstreams, apex) != nullptr;
      };
      return service && !model::find_upstream(*known->upstreams, upstream.service) &&
             std::any_of(service->apexes.begin(), service->apexes.end(), is_called);
    });
    for (model::Upstream& upstream : upstreams) {
      const auto* told = model::find_upstream(*known->upstreams, upstream.service);
      if (told == nullptr || told->every_identity) continue;
      const std::vector<ServiceIdentity> own = std::move(upstream.allowed);
      upstream.allowed.clear();
      if (std::exchange(upstream.every_identity, false))
        upstream.allowed = told->allowed;
      else
        std::set_intersection(own.begin(), own.end(), told->allowed.begin(), told->allowed.end(),
                              std::back_inserter(upstream.allowed));
    }
    policy.upstreams = std::make_shared<const std::vector<model::Upstream>>(std::move(upstreams));
  }
}

void MeshVariant::filter(model::ServiceEndpoints& endpoints, const model::ServiceEndpoints*) {
  const auto known = newest_->endpoints.find(endpoints.service);
  std::erase_if(endpoints.endpoints, [&](const Endpoint& endpoint) {
    return !known || !catalog::has_place_of(*known, endpoint);
  });
}

ProxySettings without_config(const ProxySettings& settings) {
  ProxySettings defaults;
  defaults.cluster_domain = settings.cluster_domain;
  return defaults;
}

ads::MeshPtr MeshVariant::without(const ObjectSet& objects) {
  SpecSnapshot absent;
  MeshConfig config = *newest_->objects->config;
  config.proxy = without_config(config.proxy);
  absent.config = std::make_shared<const MeshConfig>(std::move(config));
  SpecSnapshot left = model::mixed(absent, *newest_->objects, objects);
  left.services = with_checks_of(objects, newest_->objects->services, left.services);
  left.synced = true;  // there is a mesh of it
  objects_ = std::make_shared<const SpecSnapshot>(std::move(left));
  if (auto fresh = builder_.build()) return last_ = std::move(fresh);
  if (!last_ || last_->changes.empty()) return last_;
  // The same mesh, which nothing has changed since the last call.
  auto same = std::make_shared<model::MeshSnapshot>(*last_);
  same->changes = {};
  return last_ = std::move(same);
}

}  // namespace osm::inline v1::nack_provenance
