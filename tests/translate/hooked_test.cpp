// A resource hook can add, change and remove resources, and its failures are reported.
#include "translate/hooked.hpp"

#include <functional>
#include <stdexcept>

#include "osm/resource_hook.hpp"
#include "translate/references.hpp"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;

namespace {

constexpr std::array kHookedTypes{XdsType::kCluster, XdsType::kListener, XdsType::kRoute};
constexpr std::size_t at(XdsType type) { return static_cast<std::size_t>(type); }

class Hook final : public ResourceHook {
 public:
  using Apply = std::function<Status(const ProxyGroup&, EnvoyResources&)>;
  explicit Hook(Apply apply) : apply_(std::move(apply)) {}
  Status apply(const ProxyGroup& group, EnvoyResources& resources) const override {
    return apply_(group, resources);
  }

 private:
  Apply apply_;
};

translate::ResourcesByType resources_of(const Mesh& mesh, const translate::ProxyClass& of) {
  translate::ResourcesByType out;
  for (XdsType type : kXdsTypes)
    for (const auto& input : mesh.inputs(of, type))
      out[at(type)].push_back(std::make_shared<const translate::EncodedResource>(input->encode()));
  return out;
}

template <class Message>
Message decode(const translate::EncodedResource& resource) {
  google::protobuf::Any any;
  REQUIRE(any.ParseFromString(resource.any));
  return unpack<Message>(any);
}

}  // namespace

TEST_SUITE("translate::hooked") {
  TEST_CASE("resources that the hook leaves unchanged keep bytes and pointer") {
    const auto before = resources_of(worked_example(), server_class());
    const Hook nothing([](const auto&, auto&) { return Status(); });
    const auto after = translate::hooked(nothing, server_class(), before);
    REQUIRE(after.ok());
    CHECK(*after == before);
  }

  TEST_CASE("the hook is told whom it changes and sees the mesh's own resources") {
    const auto before = resources_of(worked_example(), server_class());
    const Hook look([&](const ProxyGroup& group, EnvoyResources& resources) {
      CHECK(group.identity == kServer);
      REQUIRE(group.services.size() == 1);
      CHECK(group.services[0].name == kServerService);
      CHECK(resources.clusters.size() == before[at(XdsType::kCluster)].size());
      CHECK(resources.listeners.size() == before[at(XdsType::kListener)].size());
      CHECK(resources.routes.size() == before[at(XdsType::kRoute)].size());
      return Status();
    });
    CHECK(translate::hooked(look, server_class(), before).ok());
  }

  TEST_CASE("added and changed resources are encoded, and only those") {
    const auto before = resources_of(worked_example(), client_class());
    const auto change = [](const ProxyGroup&, EnvoyResources& resources) {
      resources.clusters.front().mutable_connect_timeout()->set_seconds(7);
      auto& extra = resources.clusters.emplace_back();
      extra.set_name("vendor");
      extra.set_type(Cluster::STRICT_DNS);
      return Status();
    };
    const auto after = translate::hooked(Hook(change), client_class(), before);
    REQUIRE(after.ok());
    const auto& clusters = (*after)[at(XdsType::kCluster)];
    REQUIRE(clusters.size() == before[at(XdsType::kCluster)].size() + 1);
    CHECK(decode<Cluster>(*clusters.front()).connect_timeout().seconds() == 7);
    CHECK(clusters.front()->hash != before[at(XdsType::kCluster)].front()->hash);
    CHECK(clusters.front()->references == before[at(XdsType::kCluster)].front()->references);
    CHECK(clusters.back()->name == "vendor");
    CHECK(clusters.back()->references.empty());
    CHECK((*after)[at(XdsType::kListener)] == before[at(XdsType::kListener)]);
    CHECK((*after)[at(XdsType::kEndpoint)] == before[at(XdsType::kEndpoint)]);
    const auto again = translate::hooked(Hook(change), client_class(), before);
    REQUIRE(again.ok());
    CHECK((*again)[at(XdsType::kCluster)].back()->any == clusters.back()->any);
  }

  TEST_CASE("removed resources are gone") {
    const auto before = resources_of(worked_example(), client_class());
    const Hook none([](const auto&, EnvoyResources& resources) {
      resources.listeners.clear();
      return Status();
    });
    const auto after = translate::hooked(none, client_class(), before);
    REQUIRE(after.ok());
    CHECK((*after)[at(XdsType::kListener)].empty());
  }

  TEST_CASE("a hook that fails or throws says so and names the proxies") {
    const auto before = resources_of(worked_example(), client_class());
    const Hook fails([](const auto&, auto&) {
      return Status(Error{ErrorCode::kUnavailable, "the vendor's table is not there"});
    });
    const auto failed = translate::hooked(fails, client_class(), before);
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().code == ErrorCode::kUnavailable);
    CHECK(failed.error().message == "proxies of client/client: the vendor's table is not there");
    const Hook throws([](const auto&, auto&) -> Status { throw std::runtime_error("boom"); });
    const auto thrown = translate::hooked(throws, client_class(), before);
    REQUIRE_FALSE(thrown.ok());
    CHECK(thrown.error().message == "proxies of client/client: the resource hook threw: boom");
  }
}

TEST_SUITE("translate::references_of") {
  TEST_CASE("finds in the mesh's messages exactly the references of their translators") {
    for (const Protocol protocol : {Protocol::kHttp, Protocol::kTcp}) {
      Mesh mesh = worked_example(protocol);
      for (const bool permissive : {false, true}) {
        if (permissive) mesh.permissive();
        for (const auto& of : {client_class(), server_class(protocol)}) {
          const auto resources = resources_of(mesh, of);
          for (XdsType type : kHookedTypes) {
            for (const auto& resource : resources[at(type)]) {
              CAPTURE(resource->name);
              const auto found =
                  type == XdsType::kCluster ? translate::references_of(decode<Cluster>(*resource))
                  : type == XdsType::kListener
                      ? translate::references_of(decode<Listener>(*resource))
                      : translate::references_of(decode<RouteConfiguration>(*resource));
              CHECK(found == resource->references);
            }
          }
        }
      }
    }
  }
}
