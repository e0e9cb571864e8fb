#include "ads/class_builder.hpp"

#include <algorithm>
#include <set>

namespace osm::inline v1::ads {
namespace {

constexpr std::array kClassTypes{XdsType::kCluster, XdsType::kEndpoint, XdsType::kListener,
                                 XdsType::kRoute};

std::vector<EncodedPtr> encode_all(const std::vector<translate::InputPtr>& inputs,
                                   ResourceCache& cache) {
  std::vector<EncodedPtr> resources;
  resources.reserve(inputs.size());
  for (const translate::InputPtr& input : inputs) resources.push_back(cache.get(*input));
  return resources;
}

// The previous set if nothing changed, so that nothing is pushed.
ResourceSetPtr set_of(std::vector<EncodedPtr> resources, const ResourceSetPtr& previous) {
  if (previous && previous->resources() == resources) return previous;
  ResourceSetPtr fresh = ResourceSet::make(std::move(resources));
  return previous && previous->version() == fresh->version() ? previous : fresh;
}

// `set`, with the resources frozen that `without` does not have, or has with other content.
ResourceSetPtr frozen_in(const ResourceSetPtr& set, const ResourceSetPtr& without) {
  std::vector<EncodedPtr> differing = changed(without, *set);
  for (EncodedPtr& resource : differing) resource = frozen(*resource);
  return differing.empty() ? set : merged(set, std::move(differing));
}

}  // namespace

EncodedPtr frozen(const EncodedResource& resource) {
  EncodedResource out{resource.type, resource.name, {}, {}, {}, true};
  out.hash = DigestBuilder().add("frozen").add(resource.hash).finish();
  return std::make_shared<const EncodedResource>(std::move(out));
}

void leave_out_contradictions(translate::ResourcesByType& resources,
                              std::vector<std::string>& faults) {
  const auto name_of = [](const EncodedPtr& r) {
    return std::string(xds_type_text(r->type)) + " " + r->name;
  };
  std::set<std::pair<XdsType, std::string>> present;
  // Endpoints and routes come first: clusters and listeners refer to them.
  for (XdsType type :
       {XdsType::kEndpoint, XdsType::kRoute, XdsType::kCluster, XdsType::kListener}) {
    std::erase_if(resources[index_of(type)], [&](const EncodedPtr& resource) {
      if (present.contains({type, resource->name})) {
        faults.push_back(name_of(resource) + " exists twice; the first is kept");
        return true;
      }
      for (const auto& reference : resource->references) {
        const bool must_exist =
            (type == XdsType::kCluster && reference.type == XdsType::kEndpoint) ||
            (type == XdsType::kListener && reference.type == XdsType::kRoute);
        if (must_exist && !present.contains({reference.type, reference.name})) {
          faults.push_back(name_of(resource) + " is left out: it refers to the missing " +
                           std::string(xds_type_text(reference.type)) + " " + reference.name);
          return true;
        }
      }
      present.emplace(type, resource->name);
      return false;
    });
  }
}

BuildResult build(const BuildJob& job, ResourceCache& cache) {
  BuildResult result;
  result.sets = job.previous;
  if (!job.everything) {
    ResourceSetPtr& endpoints = result.sets[index_of(XdsType::kEndpoint)];
    std::vector<EncodedPtr> changed_ones;
    for (const ServiceName& service : job.endpoints_of) {
      auto some = encode_all(
          translate::endpoint_inputs_for(*job.snapshot, job.proxy_class, service), cache);
      changed_ones.insert(changed_ones.end(), some.begin(), some.end());
    }
    endpoints = merged(endpoints, std::move(changed_ones));
    return result;
  }
  result.reads = translate::services_read_by(*job.snapshot, job.proxy_class);
  translate::ResourcesByType resources;
  for (XdsType type : kClassTypes)
    resources[index_of(type)] =
        encode_all(translate::inputs_for(*job.snapshot, job.proxy_class, type), cache);
  if (job.hook) {
    auto changed = translate::hooked(*job.hook, job.proxy_class, resources);
    if (!changed.ok()) {
      result.failed = true;
      result.faults.push_back(changed.error().message);
      return result;
    }
    resources = std::move(changed).value();
  }
  leave_out_contradictions(resources, result.faults);
  for (XdsType type : kClassTypes)
    result.sets[index_of(type)] =
        set_of(std::move(resources[index_of(type)]), job.previous[index_of(type)]);
  if (!job.without) return result;
  const BuildResult without = build({.snapshot = job.without,
                                     .without = nullptr,
                                     .proxy_class = job.proxy_class,
                                     .previous = {},
                                     .everything = true,
                                     .endpoints_of = {},
                                     .hook = job.hook},
                                    cache);
  result.failed = without.failed;
  for (XdsType type : kClassTypes) {
    ResourceSetPtr& set = result.sets[index_of(type)];
    set = frozen_in(set, without.sets[index_of(type)]);
    const ResourceSetPtr& previous = job.previous[index_of(type)];
    if (previous && previous->version() == set->version()) set = previous;
  }
  return result;
}

}  // namespace osm::inline v1::ads
