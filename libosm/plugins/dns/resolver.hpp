// The resolver of DNS names: a ResolutionTable that asks name servers.
//
// A round asks for up to 64 names, one round at a time. A name with records is asked for again
// after their TTL, within bounds, and another one after a back-off from 1 s to 30 s.
#pragma once

#include <memory>

#include "dns/lookup.hpp"
#include "osm/spec/dns_resources.hpp"

namespace osm::inline v1::dns {

// As make_dns_resolver(), with `ask` in place of name servers.
std::unique_ptr<ResourceResolver> make_resolver(const DnsResolverOptions& options, Ask ask);

}  // namespace osm::inline v1::dns
