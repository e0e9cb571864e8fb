// A program that has the Envoy API linked already, its own build of it, and adds libosm: it still
// starts, and both mean the same messages.
#include <envoy/config/cluster/v3/cluster.pb.h>
#include <google/protobuf/descriptor.h>
#include <xds/type/matcher/v3/matcher.pb.h>

#include <cstdio>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/inject/interception.hpp"
#include "osm/resource_hook.hpp"

// Makes libosm run its translation, which speaks the protos: in mesh.cpp.
int run_mesh();

namespace {

// A host may open our namespace and go on speaking of Envoy's own.
using namespace osm;
using Matcher = xds::type::matcher::v3::Matcher;

class Hook final : public ResourceHook {
 public:
  Status apply(const ProxyGroup&, EnvoyResources& resources) const override {
    resources.clusters.emplace_back().set_name("the-hosts-own");
    return {};
  }
};

}  // namespace

int main() {
  EnvoyResources resources;
  if (!Hook().apply({}, resources).ok()) return 1;
  const auto& cluster = resources.clusters.front();
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  const auto* found = pool->FindMessageTypeByName("envoy.config.cluster.v3.Cluster");
  if (found == nullptr || found != cluster.GetDescriptor()) {
    std::fprintf(stderr, "protos: two descriptors of one message\n");
    return 1;
  }
  if (cluster.SerializeAsString().empty()) return 1;
  if (Matcher::descriptor()->full_name() != "xds.type.matcher.v3.Matcher") return 1;
  if (run_mesh() != 0) return 1;
  std::puts("protos: ok");
}
