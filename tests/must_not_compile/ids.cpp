// Ids of different kinds do not turn into each other, nor into text or numbers, by themselves.
#include "osm/ids.hpp"

int main() {
  const osm::CommonName common_name("a");
  const osm::TrustDomain domain("b");
  const osm::ServiceAccount account{"ns", "name"};
  const osm::ServiceName service{"ns", "name"};
  const osm::WorkloadName workload{"ns", "name"};
  [[maybe_unused]] const osm::Port port{80};
  bool equal = service == service && workload == workload && account == account;

#ifdef ProxyIdFromText
  const osm::ProxyId id = "text";
#elif defined(ProxyIdFromCommonName)
  const osm::ProxyId id = common_name;
#else
  const osm::ProxyId id(common_name.str());
#endif
#ifdef TextFromTrustDomain
  const std::string text = domain;
#else
  const std::string text = domain.str();
#endif
#ifdef CompareProxyIdWithSpiffeId
  equal = id == osm::SpiffeId("x");
#else
  equal = equal && id == osm::ProxyId("x");
#endif
#ifdef ServiceNameFromAccount
  const osm::ServiceName other = account;
#else
  const osm::ServiceName other{account.ns, account.name};
#endif
#ifdef IdentityFromAccount
  const osm::ServiceIdentity identity = account;
#else
  const osm::ServiceIdentity identity = osm::identity_of(account);
#endif
#ifdef CompareServiceWithWorkload
  equal = service == workload;
#else
  equal = equal && service == other;
#endif
#ifdef PortFromNumber
  const osm::Port other_port = 80;
#else
  const osm::Port other_port{80};
#endif
#ifdef NumberFromPort
  const int number = other_port;
#else
  const int number = osm::number(other_port);
#endif
  return equal && identity.empty() && text.empty() ? number : 0;
}
