// Names as strangers write them, NULs included → SPIFFE ids and common names: what is accepted
// reads back as itself, so that no two texts mean one identity and no text means two.
//
//   input: lines: trust domain, proxy id, namespace, account, a URI SAN, a common name.
#include "ads/peer.hpp"
#include "certificate/x509.hpp"
#include "fuzz/fuzz.hpp"
#include "model/names.hpp"
#include "osm/values/endpoint.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace x509 = certificate::x509;

constexpr const char* kWorkloadUri = "spiffe://cluster.local/ns/bookstore/sa/bookstore-v1";

bool printable(std::string_view text) {
  for (const char c : text)
    if (c < ' ' || c > '~') return false;
  return true;
}

void parse(const TrustDomain& domain, const std::string& uri) {
  const auto parsed = model::parse_proxy_spiffe_id(domain, uri);
  if (!parsed.ok()) {
    require(parsed.error().code == ErrorCode::kWrongCertificateKind, "a refusal says its kind");
    return;
  }
  require(model::proxy_spiffe_id(domain, *parsed).str() == uri, "an identity reads back", uri);
  require(is_uuid(parsed->id.str()) && is_dns_label(parsed->account.ns) &&
              is_dns_subdomain(parsed->account.name),
          "an identity is made of names", uri);
}

// Text made of foreign names must not read as another name.
void format(const TrustDomain& domain, const model::ProxyIdentity& identity) {
  const SpiffeId id = model::proxy_spiffe_id(domain, identity);
  const auto parsed = model::parse_proxy_spiffe_id(domain, id.str());
  const bool valid = is_uuid(identity.id.str()) && is_dns_label(identity.account.ns) &&
                     is_dns_subdomain(identity.account.name);
  require(parsed.ok() == valid, "an identity is accepted if all its names are", id.str());
  require(!parsed.ok() || *parsed == identity, "an identity does not read as another", id.str());
  const ProxyId derived = model::derived_proxy_id(domain, {identity.account.ns, "vm"});
  require(is_uuid(derived.str()), "a derived id is a UUID", derived.str());
}

std::string common_name_of(const X509& certificate) {
  X509_NAME* subject = X509_get_subject_name(&certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  require(at >= 0, "a leaf has a common name");
  const ASN1_STRING* text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

std::string uri_of(X509& certificate) {
  const openssl::Handle<GENERAL_NAMES, GENERAL_NAMES_free> names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  require(names && sk_GENERAL_NAME_num(names.get()) == 1, "a leaf has one name");
  const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), 0);
  require(name->type == GEN_URI, "a leaf's name is a URI");
  const ASN1_STRING* text = name->d.uniformResourceIdentifier;
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

struct Authority {
  Authority() {
    auto generated = x509::generate_key({});
    require(generated.ok(), "a key can be made");
    key = *std::move(generated);
    auto made = x509::make_root(*key, lifetime);
    require(made.ok(), "a root can be made");
    root = *std::move(made);
  }
  const x509::Lifetime lifetime{WallTime{std::chrono::hours(1)}, WallTime{std::chrono::hours(2)}};
  openssl::Key key;
  openssl::X509Handle root;
};

// Made once, since keys take longer than everything else here.
const Authority& authority() {
  static const Authority made;
  return made;
}

openssl::X509Handle certified(const certificate::Subject& subject) {
  const Authority& by = authority();
  auto leaf = x509::make_leaf(subject, *by.key, by.lifetime, *by.root, *by.key);
  require(leaf.ok(), "what is valid can be certified");
  return *std::move(leaf);
}

void certify(const certificate::Subject& subject, const TrustDomain& domain,
             const std::string& domain_text) {
  const openssl::CleanErrorQueue queue;
  const Status valid = x509::validate(subject, domain);
  if (!valid.ok()) {
    // The trust domain is the operator's, and stands in the remedy as it is.
    require(!printable(domain_text) || printable(valid.error().message),
            "an error holds no control characters", valid.error().message);
    return;
  }
  require(printable(subject.common_name.str()), "a certified name is printable");
  const openssl::X509Handle leaf = certified(subject);
  require(common_name_of(*leaf) == subject.common_name.str(), "a common name reads back");
  require(uri_of(*leaf) == subject.spiffe_id.str(), "a URI SAN reads back");
}

// A leaf that can be read. Its names do not matter: the transport passes them beside it.
const std::string& readable_pem() {
  static const std::string pem = [] {
    const openssl::CleanErrorQueue queue;
    auto text = x509::to_pem(
        *certified({CommonName("leaf"), SpiffeId(kWorkloadUri), certificate::Usage::kWorkload}));
    require(text.ok(), "a leaf can be written");
    return *std::move(text);
  }();
  return pem;
}

void identify(const TrustDomain& domain, const std::string& uri, const std::string& name) {
  ads::PeerCertificate certificate{{uri}, name, "", "ipv4:10.0.0.7:41234"};
  require(!ads::identify_peer({domain}, certificate).ok(), "nobody is identified without a PEM");
  certificate.pem = readable_pem();
  const auto peer = ads::identify_peer({domain}, certificate);
  const auto parsed = model::parse_proxy_spiffe_id(domain, uri);
  require(!peer.ok() || (parsed.ok() && peer->identity == *parsed),
          "a peer is the proxy that its URI SAN names", uri);
  for (const std::string& second : {uri, std::string(kWorkloadUri)}) {
    certificate.uris = {uri, second};
    require(!ads::identify_peer({domain}, certificate).ok(), "nobody is identified by two names");
  }
  require(ads::peer_host(name).size() <= name.size(), "a host is part of its address");
}

void run(Choices choices) {
  const std::string domain_text = choices.line();
  const TrustDomain domain{domain_text};
  const model::ProxyIdentity identity{ProxyId(choices.line()), {choices.line(), choices.line()}};
  const std::string uri = choices.line();
  const std::string name = choices.line();

  parse(domain, uri);
  format(domain, identity);
  format(domain, {identity.id, identity.account, WorkloadKind::kPod});
  identify(domain, uri, name);
  certify({CommonName(name), SpiffeId(uri), certificate::Usage::kProxy}, domain, domain_text);

  const ServiceIdentity account{identity.account.ns, identity.account.name};
  if (is_dns_label(account.ns) && is_dns_subdomain(account.name))
    require(spiffe_id(domain, account).str().starts_with(workload_spiffe_prefix(domain)),
            "a workload's id has the prefix of workloads");
  if (const auto service = parse_service_name(identity.account.ns, identity.account.name);
      service.ok())
    require(is_dns_label(service->ns) && is_dns_label(service->name),
            "a service's name is made of labels");
}

const bool kAdded = add("names", [](std::string_view input) { run(Choices(input)); });

}  // namespace
