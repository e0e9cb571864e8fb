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
    R"sh(is_ipv4() ( # TEXT
  case $1 in
    *[!0-9.]* | *.*.*.*.* | .* | *. | *..*) exit 1 ;;
    *.*.*.*) ;;
    *) exit 1 ;;
  esac
  IFS=.
  for part in $1; do [ ${#part} -le 3 ] && [ "$part" -le 255 ] || exit 1; done
)

# The IPv4 name servers in NAME_SERVERS, or of /etc/resolv.conf.
name_servers() {
  for server in ${NAME_SERVERS-}; do ! is_ipv4 "$server" || echo "$server"; done
  [ -z "${NAME_SERVERS-}" ] && [ -r /etc/resolv.conf ] || return 0
  while read -r key server rest || [ -n "$key" ]; do
    [ "$key" != nameserver ] || ! is_ipv4 "$server" || echo "$server"
  done </etc/resolv.conf
}

# DNS over TCP goes to the name servers past the proxy, as over UDP: answers may not fit into UDP.
spare_name_servers() {
  for server in $(name_servers); do
    echo "-A OSM_PROXY_OUTBOUND -d $server/32 -p tcp --dport 53 -j RETURN"
  done
}
)sh";

constexpr std::string_view kRedirect =
    R"sh(
# If some name servers are on loopback, only those: a resolver there may ask the others, and its
# questions must not come back to it.
redirected_servers() {
  loopback= others=
  for server in $(name_servers); do
    case $server in
      127.*) loopback="$loopback $server" ;;
      *) others="$others $server" ;;
    esac
  done
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

std::string_view name_server_functions() { return kNameServers; }

std::string dns_functions(const InterceptionOptions& options) {
  std::string out(kRemove);
  out.append(kNameServers);
  return out.append(options.dns ? kRedirect : std::string_view("\n"));
}

std::string dns_commands(const InterceptionOptions& options) {
  if (!options.dns) return "  remove_dns\n";
  return fmt::format(
      R"sh(  # Without name servers, as early at boot, TCP must be redirected all the same.
  servers=$(redirected_servers)
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
