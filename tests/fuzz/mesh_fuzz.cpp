// A whole mesh, its objects edited one after the other → snapshot → every proxy's resources.
// Checked are what Envoy insists on (protos parse, names and matches are unique, references
// resolve), what keeps the mesh safe (every upstream pins identities, every listener asks for a
// certificate), and that a mesh that grew by events equals one read afresh.
//
//   input: steps; an object (by its place in the base mesh), whether it is copied first, an edit.
#include <boost/json.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ads/class_builder.hpp"
#include "catalog/mesh_builder.hpp"
#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/config/route/v3/route.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "fuzz/object_edits.hpp"
#include "fuzz/quiet.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;
namespace cluster = envoy::config::cluster::v3;
namespace listener = envoy::config::listener::v3;
namespace route = envoy::config::route::v3;
namespace tls = envoy::extensions::transport_sockets::tls::v3;

const TrustDomain kDomain{"cluster.local"};
constexpr std::string_view kWorkloads = "spiffe://cluster.local/";

// ---- what Envoy and the mesh's safety ask of each resource

void check_upstream(const cluster::Cluster& cluster) {
  if (!cluster.has_transport_socket()) {
    // To the workload behind its own proxy, or out of the mesh.
    const bool egress = cluster.type() == cluster::Cluster::STRICT_DNS ||
                        cluster.name().starts_with("extension-service|") ||
                        cluster.name().starts_with("rate-limit|") ||
                        cluster.name().find("|original-dst|") != std::string::npos;
    require(
        egress || cluster.name().ends_with("|local") || cluster.name() == "passthrough-outbound",
        "what leads to a workload speaks mutual TLS", cluster.name());
    return;
  }
  tls::UpstreamTlsContext context;
  require(cluster.transport_socket().typed_config().UnpackTo(&context), "a cluster's TLS parses");
  const auto& validation =
      context.common_tls_context().combined_validation_context().default_validation_context();
  require(validation.match_typed_subject_alt_names_size() > 0,
          "every upstream TLS context pins an identity", cluster.name());
  for (const auto& name : validation.match_typed_subject_alt_names()) {
    require(name.san_type() == tls::SubjectAltNameMatcher::URI, "identities are URIs");
    require(name.matcher().exact().starts_with(kWorkloads), "upstream identities are exact",
            cluster.name());
  }
  require(context.common_tls_context().tls_certificate_sds_secret_configs_size() == 1,
          "an upstream shows the own certificate", cluster.name());
}

void check_listener(const listener::Listener& listener) {
  std::set<std::string> matches;
  for (const auto& chain : listener.filter_chains()) {
    require(matches.insert(chain.filter_chain_match().SerializeAsString()).second,
            "filter chain matches are unique", listener.name());
    if (!chain.has_transport_socket()) continue;
    tls::DownstreamTlsContext context;
    require(chain.transport_socket().typed_config().UnpackTo(&context), "a listener's TLS parses");
    require(context.require_client_certificate().value(), "a listener asks for a certificate");
    const auto& validation =
        context.common_tls_context().combined_validation_context().default_validation_context();
    require(validation.match_typed_subject_alt_names_size() > 0,
            "a listener takes workloads of the mesh only");
  }
}

void check_routes(const route::RouteConfiguration& routes) {
  std::set<std::string> hosts;
  std::set<std::string> domains;
  for (const auto& host : routes.virtual_hosts()) {
    require(hosts.insert(host.name()).second, "virtual hosts' names are unique", host.name());
    require(host.domains_size() > 0, "a virtual host has a domain", host.name());
    for (const std::string& domain : host.domains()) {
      require(domains.insert(domain).second, "a domain stands once", domain);
      require(domain.find_first_of(std::string_view("\0\r\n ", 4)) == std::string::npos,
              "a domain is one word", domain);
    }
    for (const auto& entry : host.routes()) {
      std::uint64_t sum = 0;
      for (const auto& target : entry.route().weighted_clusters().clusters())
        sum += target.weight().value();
      require(!entry.route().has_weighted_clusters() || (sum > 0 && sum <= UINT32_MAX),
              "weights sum to what Envoy can add up", host.name());
    }
  }
}

template <class T>
T unpacked(const translate::EncodedResource& resource) {
  google::protobuf::Any any;
  T message;
  require(any.ParseFromString(resource.any) && any.UnpackTo(&message),
          "a resource is of its type's message", resource.name);
  return message;
}

void check(const translate::EncodedResource& resource) {
  switch (resource.type) {
    case XdsType::kCluster:
      return check_upstream(unpacked<cluster::Cluster>(resource));
    case XdsType::kListener:
      return check_listener(unpacked<listener::Listener>(resource));
    case XdsType::kRoute:
      return check_routes(unpacked<route::RouteConfiguration>(resource));
    case XdsType::kEndpoint:
      (void)unpacked<envoy::config::endpoint::v3::ClusterLoadAssignment>(resource);
      return;
    case XdsType::kSecret:
      return;
  }
}

void check_references(const ads::ResourceSets& sets) {
  for (const XdsType type : kXdsTypes) {
    if (type == XdsType::kSecret) continue;
    for (const auto& resource : sets[ads::index_of(type)]->resources()) {
      check(*resource);
      for (const auto& reference : resource->references) {
        if (reference.type == XdsType::kSecret) continue;
        require(sets[ads::index_of(reference.type)]->find(reference.name) != nullptr,
                "every reference leads somewhere", resource->name + " -> " + reference.name);
      }
    }
  }
}

// ---- meshes

struct Mesh {
  explicit Mesh(testing::MemoryObjectStore& store)
      : spec(spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics})),
        machines(vm::make_vm_provider({store, *spec, kDomain, log, metrics})),
        builder(*spec, {{machines.get(), true}}, {machines.get()}, kDomain) {
    subscriptions.push_back(
        machines->subscribe([this](const auto& services) { builder.endpoints_changed(services); }));
    subscriptions.push_back(machines->subscribe_workloads(
        [this](const auto& names) { builder.workloads_changed(names); }));
  }

  std::shared_ptr<const model::MeshSnapshot> build() {
    if (auto next = builder.build()) newest = std::move(next);
    return newest;
  }

  QuietLog log;
  QuietMetrics metrics;
  std::unique_ptr<MeshSpec> spec;
  std::unique_ptr<vm::VmProvider> machines;
  catalog::MeshBuilder builder;
  std::shared_ptr<const model::MeshSnapshot> newest;
  std::vector<Subscription> subscriptions;  // last: they end first
};

// By workload and type: the version of what its proxy holds.
std::map<std::string, std::string> versions_of(
    const std::shared_ptr<const model::MeshSnapshot>& snapshot) {
  std::map<std::string, std::string> versions;
  QuietMetrics metrics;
  ads::ResourceCache cache(metrics);
  for (const auto& entry : snapshot->workloads) {
    ads::BuildJob job;
    job.snapshot = snapshot;
    job.proxy_class = translate::class_of(*snapshot, entry->workload);
    const ads::BuildResult built = ads::build(job, cache);
    require(built.faults.empty(), "what is translated does not contradict itself",
            built.faults.empty() ? "" : built.faults.front());
    check_references(built.sets);
    for (const XdsType type : kXdsTypes)
      if (const auto& set = built.sets[ads::index_of(type)])
        versions[entry->workload.name.str() + ' ' + std::string(xds_type_text(type))] =
            set->version();
  }
  return versions;
}

class Operator {
 public:
  Operator() : documents_(base_objects()) {
    for (const json::value& document : documents_) put(document);
  }

  testing::MemoryObjectStore& store() { return store_; }

  void edit_one(Choices& choices) {
    std::size_t at = choices.below(documents_.size());
    if (choices.flag() && documents_.size() < 40) {
      documents_.push_back(documents_[at]);
      at = documents_.size() - 1;
    } else if (const auto old = object_of(documents_[at]).key; !old.name.empty()) {
      store_.remove(old);
    }
    edit(documents_[at], choices);
    put(documents_[at]);
  }

  // Only a mesh that grew knows a MeshConfig that is gone; it is created again.
  void restore_config() {
    if (store_.get({kinds::kMeshConfig, "osm-system", "osm-mesh-config"}) == nullptr)
      require(store_.put_yaml(kDefaults).ok(), "a MeshConfig with the defaults is valid");
  }

 private:
  static constexpr const char* kDefaults =
      "{apiVersion: config.openservicemesh.io/v1alpha2, kind: MeshConfig, "
      "metadata: {name: osm-mesh-config, namespace: osm-system}}";

  // As a file is read: what is no object is refused there.
  void put(const json::value& document) { (void)store_.put_yaml(json::serialize(document)); }

  std::vector<json::value> documents_;
  testing::MemoryObjectStore store_;
};

void run(Choices choices) {
  Operator at_work;
  Mesh grown(at_work.store());
  require(grown.build() != nullptr, "a mesh is built as soon as everything is read");
  for (int steps = 0; steps < 12 && !choices.empty(); ++steps) {
    at_work.edit_one(choices);
    grown.build();
  }
  at_work.restore_config();
  Mesh fresh(at_work.store());
  const auto expected = fresh.build();
  const auto got = grown.build();
  if (!expected) {  // a cold start with a broken MeshConfig; a running mesh keeps the last good one
    require(!fresh.builder.waiting_for().empty(), "a mesh that is not built says what is missing");
    return;
  }
  require(*got->problems == *expected->problems, "a mesh that grew has a fresh one's problems");
  require(versions_of(got) == versions_of(expected), "a mesh that grew equals a fresh one");
}

const bool kAdded = add("mesh", [](std::string_view input) { run(Choices(input)); });

}  // namespace
