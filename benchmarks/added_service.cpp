#include "added_service.hpp"

#include <map>
#include <memory>

#include "ads/class_builder.hpp"
#include "ads/session.hpp"
#include "built_mesh.hpp"

namespace osm::bench {
namespace {

// A proxy that holds what it is sent, and asks for what that names.
class Proxy {
 public:
  explicit Proxy(XdsVariant variant) : variant_(variant), session_(variant, names_) {
    ask(XdsType::kCluster, {});
    ask(XdsType::kListener, {});
  }

  // Result: bytes of all responses until nothing more is due.
  std::uint64_t take_all(const ads::ResourceSets& sets) {
    session_.set_resources(sets);
    std::uint64_t bytes = 0;
    while (const auto response = session_.next_response(SteadyTime{})) {
      bytes += ads::response_size(*response);
      session_.on_write_done();
      receive(*response);
    }
    return bytes;
  }

 private:
  void receive(const ads::Response& response) {
    versions_[response.type] = response.version;
    nonces_[response.type] = response.nonce;
    acknowledge(response.type);
    if (!ads::is_whole(response.type)) return;
    auto& held = held_[response.type];
    if (variant_ == XdsVariant::kSotw) held.clear();
    for (const ads::EncodedPtr& resource : response.resources) held[resource->name] = resource;
    for (const std::string& name : response.removed) held.erase(name);
    std::vector<ads::EncodedPtr> all;
    for (const auto& [name, resource] : held) all.push_back(resource);
    const XdsType needed =
        response.type == XdsType::kCluster ? XdsType::kEndpoint : XdsType::kRoute;
    ask(needed, ads::references(all, needed));
  }

  void ask(XdsType type, const ads::NameSet& names) {
    const ads::NameSet before = std::exchange(asked_[type], names);
    if (before == names && !names.empty()) return;
    if (variant_ == XdsVariant::kSotw) return acknowledge(type);
    const ads::NameSet added = ads::minus(names, before);
    const ads::NameSet dropped = ads::minus(before, names);
    ads::DeltaRequest request;
    request.type_url = xds_type_url(type);
    request.subscribe = {added.begin(), added.end()};
    request.unsubscribe = {dropped.begin(), dropped.end()};
    static_cast<void>(session_.on_request(request));
  }

  void acknowledge(XdsType type) {
    if (variant_ == XdsVariant::kDelta) {
      ads::DeltaRequest request;
      request.type_url = xds_type_url(type);
      request.nonce = nonces_[type];
      static_cast<void>(session_.on_request(request));
      return;
    }
    const ads::NameSet& names = asked_[type];
    session_.on_request(ads::Request{
        xds_type_url(type), versions_[type], nonces_[type], {names.begin(), names.end()}, {}});
  }

  const XdsVariant variant_;
  ads::NameSetPool names_;
  ads::Session session_;
  std::map<XdsType, std::string> versions_, nonces_;
  std::map<XdsType, ads::NameSet> asked_;
  std::map<XdsType, std::map<std::string, ads::EncodedPtr>> held_;
};

ads::ResourceSets sets_of(const std::shared_ptr<const model::MeshSnapshot>& snapshot,
                          const translate::ProxyClass& proxy_class, ads::ResourceCache& cache) {
  ads::BuildJob job;
  job.snapshot = snapshot;
  job.proxy_class = proxy_class;
  ads::ResourceSets sets = ads::build(job, cache).sets;
  sets[ads::index_of(XdsType::kSecret)] = ads::ResourceSet::none();  // secrets do not change
  return sets;
}

}  // namespace

std::uint64_t bytes_per_added_service(const MeshSize& size, XdsVariant variant) {
  BuiltMesh mesh(size);
  CountingMetrics metrics;
  ads::ResourceCache cache(metrics);
  const auto before = mesh.snapshot();
  const auto after = mesh.after(Change::kService);
  // Proxies of one class are sent the same.
  std::map<translate::ProxyClass, std::uint64_t> bytes_to_one;
  std::uint64_t bytes = 0;
  for (int index = 0; index < size.proxies; ++index) {
    const translate::ProxyClass then = translate::class_of(*before, mesh.workload(index));
    auto [at, unknown] = bytes_to_one.try_emplace(then, 0);
    if (unknown) {
      Proxy proxy(variant);
      proxy.take_all(sets_of(before, then, cache));
      at->second =
          proxy.take_all(sets_of(after, translate::class_of(*after, mesh.workload(index)), cache));
    }
    bytes += at->second;
  }
  return bytes;
}

OneProxyBytes bytes_to_one_proxy(const MeshSize& size, XdsVariant variant) {
  BuiltMesh mesh(size);
  CountingMetrics metrics;
  ads::ResourceCache cache(metrics);
  const auto before = mesh.snapshot();
  const auto after = mesh.after(Change::kService);
  const auto sets = [&](const auto& snapshot) {
    return sets_of(snapshot, translate::class_of(*snapshot, mesh.workload(0)), cache);
  };
  Proxy proxy(variant);
  OneProxyBytes bytes;
  bytes.first = proxy.take_all(sets(before));
  bytes.added = proxy.take_all(sets(after));
  bytes.removed = proxy.take_all(sets(before));
  return bytes;
}

}  // namespace osm::bench
