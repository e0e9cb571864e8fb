#include "certificate/x509.hpp"

#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <ctime>

#include "certificate/p256.hpp"

namespace osm::inline v1::certificate::x509 {
namespace {

using openssl::failure;

constexpr int kSerialBits = 128;
constexpr std::size_t kMaxCommonName = 1024;  // longest name of the mesh: 253 + 63 + 255 and dots
constexpr std::size_t kMaxSpiffeId = 2048;    // SPIFFE-ID specification, section 2.3
constexpr std::size_t kMaxDnsNames = 32;
constexpr std::string_view kScheme = "spiffe://";
constexpr std::string_view kCaCommonName = "osm-ca.openservicemesh.io";
constexpr std::string_view kOrganization = "Open Service Mesh";

using openssl::Names;
using openssl::reader_of;
using openssl::text_of;
using Extension = openssl::Handle<X509_EXTENSION, X509_EXTENSION_free>;
using Name = openssl::Handle<GENERAL_NAME, GENERAL_NAME_free>;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '-' || c == '_';
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_char);
}

// True for one or more segments, each preceded by '/', that no reader normalizes.
bool is_spiffe_path(std::string_view path) {
  if (path.empty()) return false;
  while (!path.empty()) {
    if (path.front() != '/') return false;
    path.remove_prefix(1);
    const std::string_view segment = path.substr(0, path.find('/'));
    if (!is_name(segment) || segment == "." || segment == "..") return false;
    path.remove_prefix(segment.size());
  }
  return true;
}

// "<account>.<namespace>.<trust domain>" of a workload's SPIFFE id; empty: another id.
std::string workload_dns_name(std::string_view id) {
  constexpr std::string_view kNamespace = "/ns/";
  constexpr std::string_view kAccount = "/sa/";
  if (!id.starts_with(kScheme)) return {};
  id.remove_prefix(kScheme.size());
  const std::string_view domain = id.substr(0, id.find('/'));
  id.remove_prefix(domain.size());
  if (!id.starts_with(kNamespace)) return {};
  id.remove_prefix(kNamespace.size());
  const std::string_view ns = id.substr(0, id.find('/'));
  id.remove_prefix(ns.size());
  if (!id.starts_with(kAccount)) return {};
  id.remove_prefix(kAccount.size());
  if (id.find('/') != id.npos) return {};
  return std::string(id).append(".").append(ns).append(".").append(domain);
}

bool may_have(const Subject& subject, const std::string& dns) {
  if (!is_dns_name(dns)) return false;
  if (subject.usage == Usage::kWorkload) return dns == workload_dns_name(subject.spiffe_id.str());
  return subject.usage == Usage::kWebhook || subject.usage == Usage::kGateway ||
         subject.usage == Usage::kController;
}

Error not_certified(const Subject& subject, const std::string& prefix) {
  return {ErrorCode::kInvalidArgument,
          "common name " + in_quotes(subject.common_name.str()) + ": URI SAN " +
              in_quotes(subject.spiffe_id.str()) + " cannot be certified: use " + prefix +
              "/<path> with segments of letters, digits, '.', '_' and '-'"};
}

Status add_name_entry(X509_NAME& name, int nid, std::string_view text) {
  // Use the type instead of MBSTRING: otherwise OpenSSL applies its string table, which refuses
  // common names above 64 bytes.
  if (X509_NAME_add_entry_by_NID(&name, nid, V_ASN1_UTF8STRING,
                                 reinterpret_cast<const unsigned char*>(text.data()),
                                 static_cast<int>(text.size()), -1, 0) != 1)
    return failure("X509_NAME_add_entry_by_NID");
  return {};
}

// `value` is written as in openssl.cnf: "critical,CA:FALSE" (x509v3_config(5)).
Status add_extension(X509& certificate, X509& ca, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &ca, &certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_nconf_nid(nullptr, &context, nid, value));
  if (!extension || X509_add_ext(&certificate, extension.get(), -1) != 1)
    return failure("X509V3_EXT_nconf_nid");
  return {};
}

const char* extended_usage(Usage usage) {
  if (!for_clients(usage)) return "serverAuth";
  return for_servers(usage) ? "serverAuth,clientAuth" : "clientAuth";
}

Status push_name(GENERAL_NAMES& names, int type, const std::string& value) {
  Name name(GENERAL_NAME_new());
  openssl::Handle<ASN1_IA5STRING, ASN1_IA5STRING_free> text(ASN1_IA5STRING_new());
  if (!name || !text ||
      ASN1_STRING_set(text.get(), value.data(), static_cast<int>(value.size())) != 1)
    return failure("GENERAL_NAME_new");
  GENERAL_NAME_set0_value(name.get(), type, text.release());
  if (sk_GENERAL_NAME_push(&names, name.get()) <= 0) return failure("sk_GENERAL_NAME_push");
  (void)name.release();
  return {};
}

Result<Names> names_of(const Subject& subject) {
  Names names(GENERAL_NAMES_new());
  if (!names) return failure("GENERAL_NAMES_new");
  OSM_TRY(push_name(*names, GEN_URI, subject.spiffe_id.str()));
  for (const std::string& dns : subject.dns_names) OSM_TRY(push_name(*names, GEN_DNS, dns));
  return names;
}

Status add_names(X509& certificate, const Subject& subject) {
  OSM_TRY(const Names names, names_of(subject));
  if (X509_add1_ext_i2d(&certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) !=
      1)
    return failure("X509_add1_ext_i2d");
  return {};
}

Status add_key_ids(X509& certificate, X509& ca) {
  OSM_TRY(add_extension(certificate, ca, NID_subject_key_identifier, "hash"));
  // Optional in a CA that is not ours.
  if (X509_get_ext_by_NID(&ca, NID_subject_key_identifier, -1) < 0) return {};
  return add_extension(certificate, ca, NID_authority_key_identifier, "keyid:always");
}

std::time_t seconds_of(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

Status set_public_key(X509& certificate, EVP_PKEY& key) {
  if (p256::is_p256(key)) return p256::set_public_key(*X509_get_X509_PUBKEY(&certificate), key);
  if (X509_set_pubkey(&certificate, &key) != 1) return failure("X509_set_pubkey");
  return {};
}

Status set_public_key(X509_REQ& request, EVP_PKEY& key) {
  if (p256::is_p256(key)) return p256::set_public_key(*X509_REQ_get_X509_PUBKEY(&request), key);
  if (X509_REQ_set_pubkey(&request, &key) != 1) return failure("X509_REQ_set_pubkey");
  return {};
}

// Version, serial, lifetime and public key: common parts of roots and leaves.
Result<openssl::X509Handle> new_certificate(EVP_PKEY& key, const Lifetime& lifetime) {
  openssl::X509Handle certificate(X509_new());
  openssl::BigNumber serial(BN_new());
  if (!certificate || !serial) return failure("X509_new");
  if (BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1 ||
      !BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())))
    return failure("BN_rand");
  if (X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !ASN1_TIME_set(X509_getm_notBefore(certificate.get()), seconds_of(lifetime.not_before)) ||
      !ASN1_TIME_set(X509_getm_notAfter(certificate.get()), seconds_of(lifetime.not_after)))
    return failure("ASN1_TIME_set");
  OSM_TRY(set_public_key(*certificate, key));
  return certificate;
}

// Edwards curves have a fixed digest.
const EVP_MD* digest_for(const EVP_PKEY& key) {
  const bool edwards = EVP_PKEY_is_a(&key, "ED25519") == 1 || EVP_PKEY_is_a(&key, "ED448") == 1;
  return edwards ? nullptr : EVP_sha256();
}

Result<openssl::X509Handle> sign(openssl::X509Handle certificate, EVP_PKEY& ca_key) {
  if (X509_sign(certificate.get(), &ca_key, digest_for(ca_key)) <= 0) return failure("X509_sign");
  return certificate;
}

}  // namespace

bool for_servers(Usage usage) { return usage != Usage::kProxy && usage != Usage::kGateway; }
bool for_clients(Usage usage) {
  return usage == Usage::kWorkload || usage == Usage::kProxy || usage == Usage::kGateway;
}

Result<openssl::Key> generate_key(const KeyParameters& parameters) {
  const bool rsa = parameters.type == KeyType::kRsa;
  if (rsa && (parameters.rsa_bits < 2048 || parameters.rsa_bits > 4096))
    return Error{ErrorCode::kInvalidArgument,
                 "RSA keys of " + std::to_string(parameters.rsa_bits) +
                     " bits are not issued: set MeshConfig's spec.certificate.certKeyBitSize to "
                     "2048 up to 4096"};
  openssl::Key key(rsa ? EVP_RSA_gen(static_cast<unsigned>(parameters.rsa_bits))
                   : parameters.type == KeyType::kEd25519
                       ? EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519")
                       : EVP_EC_gen("P-256"));
  if (!key) return failure("EVP_PKEY_Q_keygen");
  return key;
}

Result<openssl::X509Handle> make_root(EVP_PKEY& key, const Lifetime& lifetime) {
  OSM_TRY(openssl::X509Handle root, new_certificate(key, lifetime));
  X509_NAME& name = *X509_get_subject_name(root.get());
  for (const Status& step :
       {add_name_entry(name, NID_commonName, kCaCommonName),
        add_name_entry(name, NID_organizationName, kOrganization),
        add_extension(*root, *root, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"),
        add_extension(*root, *root, NID_key_usage, "critical,keyCertSign,cRLSign"),
        add_key_ids(*root, *root)})
    if (!step) return step.error();
  if (X509_set_issuer_name(root.get(), &name) != 1) return failure("X509_set_issuer_name");
  return sign(std::move(root), key);
}

Result<openssl::X509Handle> make_leaf(const Subject& subject, EVP_PKEY& subject_key,
                                      const Lifetime& lifetime, X509& ca, EVP_PKEY& ca_key) {
  OSM_TRY(openssl::X509Handle leaf, new_certificate(subject_key, lifetime));
  const bool rsa = EVP_PKEY_is_a(&subject_key, "RSA") == 1;
  const char* key_usage =
      rsa ? "critical,digitalSignature,keyEncipherment" : "critical,digitalSignature";
  for (const Status& step :
       {add_name_entry(*X509_get_subject_name(leaf.get()), NID_commonName,
                       subject.common_name.str()),
        add_extension(*leaf, ca, NID_basic_constraints, "critical,CA:FALSE"),
        add_extension(*leaf, ca, NID_key_usage, key_usage),
        add_extension(*leaf, ca, NID_ext_key_usage, extended_usage(subject.usage)),
        add_names(*leaf, subject), add_key_ids(*leaf, ca)})
    if (!step) return step.error();
  if (X509_set_issuer_name(leaf.get(), X509_get_subject_name(&ca)) != 1)
    return failure("X509_set_issuer_name");
  return sign(std::move(leaf), ca_key);
}

Result<openssl::Request> make_request(const Subject& subject, EVP_PKEY& key) {
  OSM_TRY(const Names names, names_of(subject));
  openssl::Request request(X509_REQ_new());
  if (!request) return failure("X509_REQ_new");
  OSM_TRY(add_name_entry(*X509_REQ_get_subject_name(request.get()), NID_commonName,
                         subject.common_name.str()));
  openssl::Extensions extensions(sk_X509_EXTENSION_new_null());
  STACK_OF(X509_EXTENSION)* list = extensions.get();
  if (!list ||
      X509V3_add1_i2d(&list, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) != 1)
    return failure("X509V3_add1_i2d");
  OSM_TRY(set_public_key(*request, key));
  if (X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_REQ_add_extensions(request.get(), list) != 1 ||
      X509_REQ_sign(request.get(), &key, digest_for(key)) <= 0)
    return failure("X509_REQ_sign");
  return request;
}

Status validate(const Subject& subject) {
  const std::string& name = subject.common_name.str();
  if (!is_name(name) || name.size() > kMaxCommonName)
    return Error{ErrorCode::kInvalidArgument,
                 "common name " + in_quotes(name) +
                     " cannot be certified: use 1 to 1024 letters, digits, '.', '_' and '-'"};
  const std::string_view id = subject.spiffe_id.str();
  const std::size_t slash = id.find('/', std::min(kScheme.size(), id.size()));
  if (id.substr(0, kScheme.size()) != kScheme || id.size() > kMaxSpiffeId || slash == id.npos ||
      !is_name(id.substr(kScheme.size(), slash - kScheme.size())) ||
      !is_spiffe_path(id.substr(slash)))
    return not_certified(subject, "spiffe://<trust domain>");
  for (const std::string& dns : subject.dns_names)
    if (!may_have(subject, dns))
      return Error{ErrorCode::kInvalidArgument,
                   "common name " + in_quotes(name) + ": DNS name " + in_quotes(dns) +
                       " cannot be certified: only webhooks, gateways and the controller have any, "
                       "in lower case and without wildcards, and a workload that of its own "
                       "account"};
  if (subject.dns_names.size() > kMaxDnsNames ||
      (subject.usage == Usage::kWebhook && subject.dns_names.empty()))
    return Error{ErrorCode::kInvalidArgument,
                 "common name " + in_quotes(name) + " cannot be certified with " +
                     std::to_string(subject.dns_names.size()) +
                     " DNS names: a webhook needs one, and nobody gets more than 32"};
  return {};
}

Status validate(const Subject& subject, const TrustDomain& domain) {
  if (Status valid = validate(subject); !valid) return valid;
  const std::string prefix = "spiffe://" + domain.str();
  if (subject.spiffe_id.str().compare(0, prefix.size() + 1, prefix + '/') != 0)
    return not_certified(subject, prefix);
  return {};
}

Result<PrivateKey> to_pem(EVP_PKEY& key) {
  if (p256::is_p256(key)) return p256::to_pem(key);
  // A secure-memory BIO zeroes its buffer when it grows and when it goes.
  openssl::Bio bio(BIO_new(BIO_s_secmem()));
  if (!bio ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return failure("PEM_write_bio_PKCS8PrivateKey");
  return PrivateKey(text_of(*bio));
}

Result<std::string> to_pem(X509_REQ& request) {
  openssl::Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509_REQ(bio.get(), &request) != 1)
    return failure("PEM_write_bio_X509_REQ");
  return text_of(*bio);
}

Result<openssl::Key> parse_key(std::string_view pem) {
  const openssl::Bio bio = reader_of(pem);
  if (!bio) return failure("BIO_new_mem_buf");
  openssl::Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, openssl::no_passphrase, nullptr));
  if (!key) return Error{ErrorCode::kInvalidCertificate, "no unencrypted PEM private key"};
  if (openssl::Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, openssl::no_passphrase, nullptr)))
    return Error{ErrorCode::kInvalidCertificate, "more than one private key"};
  return key;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 200)) out += (c >= ' ' && c <= '~') ? c : '?';
  return out + (text.size() > 200 ? "...\"" : "\"");
}

AlternativeNames alternative_names(const GENERAL_NAMES* names) {
  AlternativeNames all;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    // Use the length, since a name may contain NULs.
    const auto text = [&](const ASN1_IA5STRING* value) {
      return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                         static_cast<std::size_t>(ASN1_STRING_length(value)));
    };
    if (name->type == GEN_URI)
      all.uris.push_back(text(name->d.uniformResourceIdentifier));
    else if (name->type == GEN_DNS)
      all.dns.push_back(text(name->d.dNSName));
    else
      all.others = true;
  }
  return all;
}

AlternativeNames alternative_names(const X509& certificate) {
  const openssl::Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  return names ? alternative_names(names.get()) : AlternativeNames{};
}

bool same_names(const AlternativeNames& names, const Subject& subject) {
  const auto sorted = [](std::vector<std::string> list) {
    std::sort(list.begin(), list.end());
    return list;
  };
  return !names.others && names.uris == std::vector{subject.spiffe_id.str()} &&
         sorted(names.dns) == sorted(subject.dns_names);
}

std::optional<std::string> common_name(const X509_NAME& name) {
  const int first = X509_NAME_get_index_by_NID(&name, NID_commonName, -1);
  if (first < 0 || X509_NAME_get_index_by_NID(&name, NID_commonName, first) >= 0) return {};
  unsigned char* utf8 = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(&name, first)));
  if (size < 0) return {};
  const openssl::Buffer owned(utf8);
  return std::string(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
}

std::string serial_number(const X509& certificate) {
  return openssl::hex_of(*X509_get0_serialNumber(&certificate));
}

}  // namespace osm::inline v1::certificate::x509
