#include "translate/dns.hpp"

#include <string>
#include <utility>

#include "envoy/config/listener/v3/listener.pb.h"
#include "envoy/extensions/filters/udp/dns_filter/v3/dns_filter.pb.h"
#include "envoy/extensions/network/dns_resolver/cares/v3/cares_dns_resolver.pb.h"
#include "model/machine_names.hpp"
#include "translate/input.hpp"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

constexpr const char* kDnsListener = "dns-listener";
constexpr std::uint32_t kDnsPort = 15053;        // inject::kDnsPort
constexpr std::int64_t kAnswerSeconds = 30;      // the least that Envoy accepts
constexpr std::int64_t kForwardSeconds = 4;      // a resolver asks again after 5
constexpr std::uint64_t kPendingLookups = 1024;  // each at most kForwardSeconds

struct DnsName {
  std::string name;
  std::string address;
};

struct DnsListenerValues {
  static constexpr XdsType kType = XdsType::kListener;
  static constexpr std::string_view kKind = "dns-listener";

  std::vector<DnsName> names;

  Encoding encode(const std::string& name) const {
    envoy::extensions::filters::udp::dns_filter::v3::DnsFilterConfig filter;
    filter.set_stat_prefix("mesh");
    auto& table = *filter.mutable_server_config()->mutable_inline_dns_table();
    for (const DnsName& one : names) {
      auto& domain = *table.add_virtual_domains();
      domain.set_name(one.name);
      domain.mutable_endpoint()->mutable_address_list()->add_address(one.address);
      domain.mutable_answer_ttl()->set_seconds(kAnswerSeconds);
    }
    // Other names: the machine's own name servers. The application's resolver has added search
    // domains already.
    envoy::extensions::network::dns_resolver::cares::v3::CaresDnsResolverConfig resolver;
    resolver.mutable_dns_resolver_options()->set_no_default_search_domain(true);
    auto& forward = *filter.mutable_client_config();
    set_extension(*forward.mutable_typed_dns_resolver_config(), "envoy.network.dns_resolver.cares",
                  resolver);
    forward.mutable_resolver_timeout()->set_seconds(kForwardSeconds);
    forward.set_max_pending_lookups(kPendingLookups);

    envoy::config::listener::v3::Listener out;
    out.set_name(name);
    auto& at = *out.mutable_address()->mutable_socket_address();
    at.set_protocol(envoy::config::core::v3::SocketAddress::UDP);
    at.set_address("127.0.0.1");
    at.set_port_value(kDnsPort);
    set_extension(*out.add_listener_filters(), "envoy.filters.udp.dns_filter", filter);
    return {.any = deterministic_bytes(pack_any(out)), .references = {}};
  }
};

}  // namespace

void add_dns(const ClassView& view, std::vector<InputPtr>& inputs) {
  if (!view.proxy_class.dns) return;
  DnsListenerValues values;
  for (const auto& service : view.snapshot.services) {
    if (service->headless || service->cluster_ip.empty()) continue;
    for (std::string& name : model::machine_names(service->name, view.proxy_class.identity.ns,
                                                  view.snapshot.config.proxy.cluster_domain))
      values.names.push_back({std::move(name), service->cluster_ip});
  }
  inputs.push_back(make_input(kDnsListener, std::move(values)));
}

}  // namespace osm::inline v1::translate
