// The simulated proxy subscribes and acknowledges as Envoy does.
//
// The simulated proxy must behave as Envoy does, or what mesh_bench counts is not what a mesh sees.
#include "simulated_proxy.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "envoy/config/cluster/v3/cluster.pb.h"
#include "envoy/config/endpoint/v3/endpoint.pb.h"
#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/config/route/v3/route.pb.h"
#include "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/tls.pb.h"
#include "envoy/service/discovery/v3/discovery.pb.h"

namespace osm::bench {
namespace {

using envoy::service::discovery::v3::DiscoveryRequest;
using envoy::service::discovery::v3::DiscoveryResponse;
namespace tls = envoy::extensions::transport_sockets::tls::v3;

template <class... Resources>
std::string response(XdsType type, const std::string& version, const Resources&... resources) {
  DiscoveryResponse message;
  message.set_type_url(std::string(xds_type_url(type)));
  message.set_version_info(version);
  message.set_nonce("nonce-" + version);
  (message.add_resources()->PackFrom(resources), ...);
  return message.SerializeAsString();
}

envoy::config::cluster::v3::Cluster cluster(const std::string& name, int timeout = 1) {
  envoy::config::cluster::v3::Cluster made;
  made.set_name(name);
  made.set_type(envoy::config::cluster::v3::Cluster::EDS);
  made.mutable_connect_timeout()->set_seconds(timeout);
  tls::UpstreamTlsContext context;
  context.mutable_common_tls_context()->add_tls_certificate_sds_secret_configs()->set_name("own");
  made.mutable_transport_socket()->mutable_typed_config()->PackFrom(context);
  return made;
}

envoy::config::endpoint::v3::ClusterLoadAssignment endpoints(const std::string& name) {
  envoy::config::endpoint::v3::ClusterLoadAssignment made;
  made.set_cluster_name(name);
  return made;
}

envoy::config::listener::v3::Listener listener(const std::string& route) {
  envoy::config::listener::v3::Listener made;
  made.set_name("inbound");
  envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager manager;
  manager.mutable_rds()->set_route_config_name(route);
  made.add_filter_chains()->add_filters()->mutable_typed_config()->PackFrom(manager);
  return made;
}

tls::Secret secret(const std::string& name) {
  tls::Secret made;
  made.set_name(name);
  return made;
}

envoy::config::route::v3::RouteConfiguration route(const std::string& name) {
  envoy::config::route::v3::RouteConfiguration made;
  made.set_name(name);
  return made;
}

// "EDS v1 a,b": type, acknowledged version, names.
std::vector<std::string> sent(const std::optional<SimulatedProxy::Reaction>& reaction) {
  REQUIRE(reaction);
  std::vector<std::string> texts;
  for (const std::string& bytes : reaction->requests) {
    DiscoveryRequest request;
    REQUIRE(request.ParseFromString(bytes));
    const auto type = xds_type_of(request.type_url());
    REQUIRE(type);
    std::string text = std::string(xds_type_text(*type)) + " " + request.version_info();
    const char* before = " ";
    for (const std::string& name : request.resource_names()) {
      text += before + name;
      before = ",";
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

using Texts = std::vector<std::string>;

struct Fixture {
  ContentsIndex index;
  SimulatedProxy proxy{"node", index};

  Texts receive(const std::string& bytes) { return sent(proxy.receive(bytes)); }
  void configure() {
    proxy.open();
    receive(response(XdsType::kCluster, "c1", cluster("a"), cluster("b")));
    receive(response(XdsType::kSecret, "s1", secret("own")));
    receive(response(XdsType::kEndpoint, "e1", endpoints("a"), endpoints("b")));
    receive(response(XdsType::kListener, "l1", listener("in")));
    receive(response(XdsType::kRoute, "r1", route("in")));
  }
};

}  // namespace

TEST_SUITE("bench::SimulatedProxy") {
  TEST_CASE("it asks for clusters alone, with its node, when the stream opens") {
    Fixture f;
    DiscoveryRequest request;
    const std::vector<std::string> requests = f.proxy.open();
    REQUIRE(requests.size() == 1);
    REQUIRE(request.ParseFromString(requests[0]));
    CHECK(request.type_url() == xds_type_url(XdsType::kCluster));
    CHECK(request.node().id() == "node");
    CHECK(request.response_nonce().empty());
  }

  TEST_CASE("clusters are acknowledged, and listeners asked for, once secrets and endpoints came") {
    Fixture f;
    f.proxy.open();
    CHECK(f.receive(response(XdsType::kCluster, "c1", cluster("b"), cluster("a"))) ==
          Texts{"SDS  own", "EDS  a,b"});
    CHECK(f.receive(response(XdsType::kEndpoint, "e1", endpoints("a"), endpoints("b"))) ==
          Texts{"EDS e1 a,b"});
    CHECK(f.receive(response(XdsType::kSecret, "s1", secret("own"))) ==
          Texts{"SDS s1 own", "CDS c1", "LDS "});
  }

  TEST_CASE("it asks for the routes its listeners name, and is configured when they came") {
    Fixture f;
    f.proxy.open();
    f.receive(response(XdsType::kCluster, "c1", cluster("a")));
    f.receive(response(XdsType::kSecret, "s1", secret("own")));
    f.receive(response(XdsType::kEndpoint, "e1", endpoints("a")));
    CHECK(f.receive(response(XdsType::kListener, "l1", listener("in"))) ==
          Texts{"LDS l1", "RDS  in"});
    CHECK_FALSE(f.proxy.configured());
    CHECK(f.receive(response(XdsType::kRoute, "r1", route("in"))) == Texts{"RDS r1 in"});
    CHECK(f.proxy.configured());
  }

  TEST_CASE("a changed cluster stays unacknowledged until its endpoints came again") {
    Fixture f;
    f.configure();
    CHECK(f.receive(response(XdsType::kCluster, "c2", cluster("a", 2), cluster("b"))) ==
          Texts{"EDS e1 a,b"});
    CHECK(f.receive(response(XdsType::kEndpoint, "e2", endpoints("a"))) ==
          Texts{"EDS e2 a,b", "CDS c2"});
  }

  TEST_CASE("clusters that did not change are acknowledged at once") {
    Fixture f;
    f.configure();
    CHECK(f.receive(response(XdsType::kCluster, "c2", cluster("a"), cluster("b"))) ==
          Texts{"CDS c2"});
  }

  TEST_CASE("a cluster that is gone is no longer asked endpoints for") {
    Fixture f;
    f.configure();
    CHECK(f.receive(response(XdsType::kCluster, "c2", cluster("a"))) ==
          Texts{"EDS e1 a", "CDS c2"});
  }

  TEST_CASE("on another stream it says what it holds, and its node first") {
    Fixture f;
    f.configure();
    const std::vector<std::string> requests = f.proxy.open();
    for (std::size_t i = 0; i < requests.size(); ++i) {
      DiscoveryRequest request;
      REQUIRE(request.ParseFromString(requests[i]));
      CHECK(request.node().id() == (i == 0 ? "node" : ""));
      CHECK(request.response_nonce().empty());
    }
    Texts said = sent(SimulatedProxy::Reaction{.type = XdsType::kCluster, .requests = requests});
    std::sort(said.begin(), said.end());
    CHECK(said == Texts{"CDS c1", "EDS e1 a,b", "LDS l1", "RDS r1 in", "SDS s1 own"});
  }

  TEST_CASE("bytes that are no response are told from responses") {
    Fixture f;
    f.proxy.open();
    CHECK_FALSE(f.proxy.receive("\xff\xff\xff"));
    CHECK_FALSE(f.proxy.receive(""));
  }
}

}  // namespace osm::bench
