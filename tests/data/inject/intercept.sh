#!/bin/sh
# Traffic interception of this machine, written by `osm vm bootstrap`. Run it as root:
#   intercept.sh            every TCP connection goes through the proxy; may be repeated
#   intercept.sh --remove   undoes it
set -eu

fail() {
  echo "intercept.sh: $*" >&2
  exit 1
}

# The line that sends a built-in chain's TCP to one of ours, unless it is there already.
jump() { # COMMAND TABLE BUILT-IN OURS
  "$1" -w -t "$2" -C "$3" -p tcp -j "$4" 2>/dev/null || echo "-I $3 1 -p tcp -j $4"
}

drop() { # COMMAND TABLE BUILT-IN OURS
  while "$1" -w -t "$2" -D "$3" -p tcp -j "$4" 2>/dev/null; do :; done
}

forget() { # COMMAND TABLE CHAIN...
  command=$1 table=$2
  shift 2
  for chain in "$@"; do "$command" -w -t "$table" -F "$chain" 2>/dev/null || :; done
  for chain in "$@"; do "$command" -w -t "$table" -X "$chain" 2>/dev/null || :; done
}

# Whether this kernel and this machine can filter IPv6.
ipv6_works() { command -v ip6tables >/dev/null && ip6tables -w -t filter -S >/dev/null 2>&1; }

remove() {
  remove_dns
  drop iptables nat PREROUTING OSM_PROXY_INBOUND
  drop iptables nat OUTPUT OSM_PROXY_OUTBOUND
  drop iptables filter INPUT OSM_PROXY_DIRECT
  forget iptables nat OSM_PROXY_INBOUND OSM_PROXY_OUTBOUND OSM_PROXY_IN_REDIRECT OSM_PROXY_OUT_REDIRECT
  forget iptables filter OSM_PROXY_DIRECT
  ipv6_works || return 0
  drop ip6tables filter INPUT OSM_PROXY_INBOUND
  drop ip6tables filter OUTPUT OSM_PROXY_OUTBOUND
  forget ip6tables filter OSM_PROXY_INBOUND OSM_PROXY_OUTBOUND
}

# Name servers of this machine are asked again.
remove_dns() {
  while iptables -w -t nat -D OUTPUT -p udp --dport 53 -j OSM_PROXY_DNS 2>/dev/null; do :; done
  forget iptables nat OSM_PROXY_DNS
}

is_ipv4() ( # TEXT
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

apply() {
  remove_dns
  iptables-restore -w --noflush <<RULES
*nat
:OSM_PROXY_INBOUND - [0:0]
:OSM_PROXY_IN_REDIRECT - [0:0]
:OSM_PROXY_OUTBOUND - [0:0]
:OSM_PROXY_OUT_REDIRECT - [0:0]
-A OSM_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports 15003
-A OSM_PROXY_OUT_REDIRECT -p tcp -j REDIRECT --to-ports 15001
-A OSM_PROXY_INBOUND -p tcp -m multiport --dports 22,15010,15901,15902,15903,15904 -j RETURN
-A OSM_PROXY_INBOUND -p tcp -j OSM_PROXY_IN_REDIRECT
-A OSM_PROXY_OUTBOUND -o lo ! -d 127.0.0.0/8 -p tcp -m owner --uid-owner 1500 -j OSM_PROXY_IN_REDIRECT
-A OSM_PROXY_OUTBOUND -o lo -j RETURN
-A OSM_PROXY_OUTBOUND -m owner --uid-owner 1500 -j RETURN
$(spare_name_servers)
-A OSM_PROXY_OUTBOUND -p tcp -j OSM_PROXY_OUT_REDIRECT
$(jump iptables nat PREROUTING OSM_PROXY_INBOUND)
$(jump iptables nat OUTPUT OSM_PROXY_OUTBOUND)
COMMIT
*filter
:OSM_PROXY_DIRECT - [0:0]
-A OSM_PROXY_DIRECT -p tcp -m multiport --dports 15001,15003 -m conntrack ! --ctstate DNAT -j REJECT --reject-with tcp-reset
$(jump iptables filter INPUT OSM_PROXY_DIRECT)
COMMIT
RULES
  # IPv6 is not redirected. What the mesh guards must not be reachable around it.
  if [ ! -e /proc/net/if_inet6 ]; then
    return 0
  elif ipv6_works; then
    ip6tables-restore -w --noflush <<RULES
*filter
:OSM_PROXY_INBOUND - [0:0]
:OSM_PROXY_OUTBOUND - [0:0]
-A OSM_PROXY_INBOUND -i lo -j RETURN
-A OSM_PROXY_INBOUND -p tcp -m multiport --dports 22,15010,15901,15902,15903,15904 -j RETURN
-A OSM_PROXY_INBOUND -p tcp --syn -j REJECT --reject-with tcp-reset
-A OSM_PROXY_OUTBOUND -o lo -j RETURN
$(jump ip6tables filter INPUT OSM_PROXY_INBOUND)
$(jump ip6tables filter OUTPUT OSM_PROXY_OUTBOUND)
COMMIT
RULES
  else
    echo "intercept.sh: ip6tables does not work here: IPv6 connections bypass the mesh" >&2
  fi
}

[ "$(id -u)" = 0 ] || fail "must be run as root"
command -v iptables >/dev/null || fail "iptables is missing; on Debian: apt-get install iptables"
case "${1-}" in
  "") apply ;;
  --remove) remove ;;
  *) fail "unknown argument '$1'; usage: intercept.sh [--remove]" ;;
esac
