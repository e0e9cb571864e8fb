#include "inject/dns_redirect.hpp"

#include <fmt/format.h>

namespace osm::inline v1::inject {
namespace {

constexpr std::string_view kRemove = R"sh(# Name servers of this machine are asked again.
remove_dns() {
  while iptables -w -t nat -D OUTPUT -p udp --dport 53 -j OSM_PROXY_DNS 2>/dev/null; do :; done
  forget iptables nat OSM_PROXY_DNS
}

)sh";

constexpr std::string_view kNameServers =
    R"sh(# The IPv4 name servers of /etc/resolv.conf. If some are on loopback, only those: a resolver there
# may ask the others, and its questions must not come back to it.
name_servers() {
  loopback= others=
  while read -r key server rest || [ -n "$key" ]; do
    [ "$key" = nameserver ] || continue
    case $server in
      *[!0-9.]* | '') ;;
      127.*) loopback="$loopback $server" ;;
      *) others="$others $server" ;;
    esac
  done </etc/resolv.conf
  echo "${loopback:-$others}"
}

dns_rules() {
  for server in $servers; do
    echo "-A OSM_PROXY_DNS -d $server/32 -p udp -j REDIRECT --to-ports $1"
  done
  iptables -w -t nat -C OUTPUT -p udp --dport 53 -j OSM_PROXY_DNS 2>/dev/null ||
    echo "-I OUTPUT 1 -p udp --dport 53 -j OSM_PROXY_DNS"
}

)sh";

}  // namespace

std::string dns_functions(const InterceptionOptions& options) {
  return std::string(kRemove).append(options.dns ? kNameServers : std::string_view());
}

std::string dns_commands(const InterceptionOptions& options) {
  if (!options.dns) return "  remove_dns\n";
  return fmt::format(
      R"sh(  # Without name servers, as early at boot, TCP must be redirected all the same.
  servers=
  [ ! -r /etc/resolv.conf ] || servers=$(name_servers)
  [ -n "$servers" ] || echo "intercept.sh: /etc/resolv.conf names no IPv4 name server, so names of \
Services do not resolve; add one and run this again" >&2
  iptables-restore -w --noflush <<RULES
*nat
:OSM_PROXY_DNS - [0:0]
-A OSM_PROXY_DNS -m owner --uid-owner {} -j RETURN
$(dns_rules {})
COMMIT
RULES
)sh",
      options.proxy_uid, number(kDnsPort));
}

}  // namespace osm::inline v1::inject
