// A machine that asks has the names of its hosts file; only names and addresses change its
// listener.
#include "envoy/extensions/filters/udp/dns_filter/v3/dns_filter.pb.h"

#include <map>
#include <set>

#include "envoy/extensions/network/dns_resolver/cares/v3/cares_dns_resolver.pb.h"
#include "model/machine_names.hpp"
#include "translate/snapshots.hpp"

using namespace osm;
using namespace osm::translate_test;
using envoy::extensions::filters::udp::dns_filter::v3::DnsFilterConfig;
using envoy::extensions::network::dns_resolver::cares::v3::CaresDnsResolverConfig;

namespace {

constexpr const char* kListener = "dns-listener";

translate::ProxyClass asking(const ServiceIdentity& identity = kClient) {
  translate::ProxyClass out{identity, {}};
  out.dns = true;
  return out;
}

model::ServiceEntry service(ServiceName name, const std::string& address) {
  model::ServiceEntry entry;
  entry.cluster_ip = address;
  entry.headless = address.empty();
  entry.ports = {port(name, 80, 80)};
  entry.name = std::move(name);
  return entry;
}

DnsFilterConfig filter_of(const Mesh& mesh, const translate::ProxyClass& of) {
  const Listener listener = mesh.listener(of, kListener);
  REQUIRE(listener.listener_filters_size() == 1);
  CHECK(listener.listener_filters(0).name() == "envoy.filters.udp.dns_filter");
  return unpack<DnsFilterConfig>(listener.listener_filters(0).typed_config());
}

std::map<std::string, std::string> names_of(const Mesh& mesh, const translate::ProxyClass& of) {
  std::map<std::string, std::string> out;
  const DnsFilterConfig filter = filter_of(mesh, of);
  for (const auto& domain : filter.server_config().inline_dns_table().virtual_domains()) {
    REQUIRE(domain.endpoint().address_list().address_size() == 1);
    CHECK(domain.answer_ttl().seconds() == 30);
    CHECK(out.emplace(domain.name(), domain.endpoint().address_list().address(0)).second);
  }
  return out;
}

}  // namespace

TEST_SUITE("translate::dns") {
  TEST_CASE("a machine that asks gets the names of its hosts file, of all Services") {
    Mesh mesh;
    mesh.put(service({"client", "own"}, "10.96.0.1"));
    mesh.put(service({"shop", "api"}, "10.96.0.2"));
    mesh.put(service({"shop", "headless"}, ""));
    CHECK(names_of(mesh, asking()) ==
          std::map<std::string, std::string>{{"own", "10.96.0.1"},
                                             {"own.client", "10.96.0.1"},
                                             {"own.client.svc", "10.96.0.1"},
                                             {"own.client.svc.cluster.local", "10.96.0.1"},
                                             {"api.shop", "10.96.0.2"},
                                             {"api.shop.svc", "10.96.0.2"},
                                             {"api.shop.svc.cluster.local", "10.96.0.2"}});
    mesh.snapshot.config.proxy.cluster_domain = "example.internal";
    CHECK(names_of(mesh, asking()).contains("api.shop.svc.example.internal"));
  }

  TEST_CASE("the listener is a socket for UDP on loopback that asks the machine's name servers") {
    const Mesh mesh;
    const Listener listener = mesh.listener(asking(), kListener);
    const auto& at = listener.address().socket_address();
    CHECK(at.protocol() == envoy::config::core::v3::SocketAddress::UDP);
    CHECK(at.address() == "127.0.0.1");
    CHECK(at.port_value() == 15053);
    const DnsFilterConfig filter = filter_of(mesh, asking());
    CHECK(filter.client_config().max_pending_lookups() > 0);
    CHECK(filter.client_config().resolver_timeout().seconds() == 4);
    const auto resolver = unpack<CaresDnsResolverConfig>(
        filter.client_config().typed_dns_resolver_config().typed_config());
    CHECK(resolver.resolvers().empty());  // those of /etc/resolv.conf
    CHECK(resolver.dns_resolver_options().no_default_search_domain());
  }

  TEST_CASE("a machine that does not ask has no such listener and reads no other Services") {
    Mesh mesh;
    mesh.put(service({"shop", "api"}, "10.96.0.2"));
    CHECK(mesh.names(client_class(), XdsType::kListener).empty());
    CHECK(translate::services_read_by(mesh.snapshot, client_class()).empty());
    CHECK(translate::services_read_by(mesh.snapshot, asking()) ==
          std::vector<ServiceName>{{"shop", "api"}});
  }

  TEST_CASE("only names and addresses change the listener") {
    Mesh mesh;
    mesh.put(service({"shop", "api"}, "10.96.0.2"));
    const auto key = [&] {
      for (const auto& input : mesh.inputs(asking(), XdsType::kListener))
        if (input->name() == kListener) return input->key();
      FAIL("no listener");
      return Digest();
    };
    const Digest before = key();
    auto entry = service({"shop", "api"}, "10.96.0.2");
    entry.ports = {port(entry.name, 81, 81)};
    entry.identities = {kServer};
    mesh.put(entry);
    CHECK(key() == before);
    mesh.put(service({"shop", "web"}, "10.96.0.3"));
    CHECK(key() != before);
  }

  TEST_CASE("the class of a machine asks if its entry says so") {
    Workload workload;
    workload.name = {"client", "client"};
    workload.proxy_id = ProxyId("11111111-1111-4111-8111-111111111111");
    workload.account = {"client", "client"};
    CHECK_FALSE(model::asks_for_dns(workload));
    workload.labels = {{"openservicemesh.io/dns", "enabled"}};
    CHECK(model::asks_for_dns(workload));
    workload.kind = WorkloadKind::kPod;
    CHECK_FALSE(model::asks_for_dns(workload));
    workload.kind = WorkloadKind::kMachine;
    Mesh mesh;
    CHECK_FALSE(translate::class_of(mesh.snapshot, workload).dns);
    model::WorkloadEntry entry{.proxy = {"client", workload.proxy_id}, .workload = workload};
    entry.dns = true;
    mesh.snapshot.workloads =
        mesh.snapshot.workloads.with(std::make_shared<const model::WorkloadEntry>(entry));
    CHECK(translate::class_of(mesh.snapshot, workload).dns);
  }
}
