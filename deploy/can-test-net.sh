#!/bin/sh
# Says in one line what `make test-net` lacks on this machine, and fails then. It changes nothing: what it tries is gone with the
# namespace that it tries it in.
set -eu

refuse() {
	echo "make test-net is not possible here: $1" >&2
	exit 1
}

[ "$(uname -s)" = Linux ] || refuse "network namespaces are Linux's"
[ "$(id -u)" = 0 ] || refuse "not root, run it with sudo"
for program in ip:iproute2 iptables:iptables unshare:util-linux; do
	command -v "${program%:*}" >/dev/null 2>&1 || refuse "no program ${program%:*}, install the package ${program#*:}"
done
inside() { unshare --net sh -c "$1" >/dev/null 2>&1; }
inside true || refuse "network namespaces are not allowed (in a container: it needs CAP_SYS_ADMIN)"
inside "ip link add bridge type bridge" || refuse "bridges are not allowed or not in this kernel (CAP_NET_ADMIN, CONFIG_BRIDGE)"
inside "ip link add one type veth peer name two" || refuse "veth pairs are not allowed or not in this kernel (CONFIG_VETH)"
inside "iptables -A INPUT -p udp -m statistic --mode random --probability 0.3 -j DROP" ||
	refuse "iptables cannot drop at random here (CONFIG_NETFILTER_XT_MATCH_STATISTIC)"
