package mesh

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// AdvertiseIP is the address that others reach a broker at when nothing is configured: the one it listens on; if that
// is a wildcard, the local end of its connection to Postgres, because whoever reaches the same database from another
// machine can probably reach that; if that end is loopback or a socket (the zero value), the first private address of
// the machine, then its first other one, then loopback.
func AdvertiseIP(listenHost string, database netip.Addr) (netip.Addr, error) {
	if listenHost != "" {
		ip, err := netip.ParseAddr(listenHost)
		if err != nil {
			return netip.Addr{}, fmt.Errorf("parse listen address: %w", err)
		}
		if ip = ip.Unmap(); !ip.IsUnspecified() {
			return ip, nil
		}
	}
	if database = database.Unmap(); database.IsValid() && !database.IsLoopback() && !database.IsUnspecified() {
		return database, nil
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read interface addresses: %w", err)
	}
	return pickAddress(addresses), nil
}

// pickAddress prefers private addresses to public ones, and IPv4 to IPv6, in the order that the system lists them.
func pickAddress(addresses []net.Addr) netip.Addr {
	best, bestRank := netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0
	for _, address := range addresses {
		network, ok := address.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(network.IP)
		if ip = ip.Unmap(); !ok || !ip.IsGlobalUnicast() {
			continue
		}
		rank := 1
		if ip.Is4() {
			rank++
		}
		if ip.IsPrivate() {
			rank += 2
		}
		if rank > bestRank {
			best, bestRank = ip, rank
		}
	}
	return best
}

// resolveAdvertise turns the configured address into one IP and port. The library takes only IPs.
func resolveAdvertise(ctx context.Context, advertise, listenHost string, listenPort int) (netip.AddrPort, error) {
	if advertise == "" {
		ip, err := AdvertiseIP(listenHost, netip.Addr{})
		return netip.AddrPortFrom(ip, uint16(listenPort)), err
	}
	host, port := advertise, uint16(listenPort)
	if h, text, err := net.SplitHostPort(advertise); err == nil {
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil || number == 0 {
			return netip.AddrPort{}, fmt.Errorf("advertised port %q is not a number from 1 to 65535", text)
		}
		host, port = h, uint16(number)
	}
	ips, err := lookup(ctx, host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolve advertised address: %w", err)
	}
	if ips[0].IsUnspecified() {
		return netip.AddrPort{}, fmt.Errorf("advertised address %s is not one that others can reach", ips[0])
	}
	return netip.AddrPortFrom(ips[0], port), nil
}

// lookup resolves a host to at least one address, IPv4 first.
func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip.Unmap()}, nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no address of %q", host)
	}
	var v4, v6 []netip.Addr
	for _, ip := range found {
		if ip = ip.Unmap(); ip.Is4() {
			v4 = append(v4, ip)
		} else {
			v6 = append(v6, ip)
		}
	}
	return append(v4, v6...), nil
}

// splitAddress takes an ip:port apart that was put together here.
func splitAddress(address string) (net.IP, uint16) {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, 0
	}
	return parsed.Addr().AsSlice(), parsed.Port()
}
