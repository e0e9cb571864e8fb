#include "certificate/x509.hpp"

#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/hex.hpp"
#include "certificate/p256.hpp"

namespace osm::inline v1::certificate::x509 {
namespace {

using openssl::failure;

constexpr int kSerialBits = 128;
constexpr std::size_t kMaxCommonName = 1024;  // longest name of the mesh: 253 + 63 + 255 and dots
constexpr std::size_t kMaxSpiffeId = 2048;    // SPIFFE-ID specification, section 2.3
constexpr std::size_t kMaxDnsName = 253;
constexpr std::size_t kMaxDnsLabel = 63;
constexpr std::size_t kMaxDnsNames = 32;
constexpr std::string_view kScheme = "spiffe://";
constexpr std::string_view kCaCommonName = "osm-ca.openservicemesh.io";
constexpr std::string_view kOrganization = "Open Service Mesh";

using BasicConstraints = openssl::Handle<BASIC_CONSTRAINTS, BASIC_CONSTRAINTS_free>;
using BitString = openssl::Handle<ASN1_BIT_STRING, ASN1_BIT_STRING_free>;
using OctetString = openssl::Handle<ASN1_OCTET_STRING, ASN1_OCTET_STRING_free>;
using KeyId = openssl::Handle<AUTHORITY_KEYID, AUTHORITY_KEYID_free>;
using ExtendedUsage = openssl::Handle<EXTENDED_KEY_USAGE, EXTENDED_KEY_USAGE_free>;
using openssl::Names;
using Name = openssl::Handle<GENERAL_NAME, GENERAL_NAME_free>;
using Extensions = openssl::Handle<STACK_OF(X509_EXTENSION), [](STACK_OF(X509_EXTENSION) * list) {
  sk_X509_EXTENSION_pop_free(list, X509_EXTENSION_free);
}>;

enum class Critical { kNo, kYes };

// Bits of RFC 5280, section 4.2.1.3.
enum KeyUsageBit { kDigitalSignature = 0, kKeyEncipherment = 2, kKeyCertSign = 5, kCrlSign = 6 };

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

// True for lower-case labels as in RFC 1123; no wildcard.
bool is_dns_name(std::string_view text) {
  if (text.size() > kMaxDnsName) return false;
  while (true) {
    const std::string_view label = text.substr(0, text.find('.'));
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    };
    if (label.empty() || label.size() > kMaxDnsLabel || label.front() == '-' ||
        label.back() == '-' || !std::all_of(label.begin(), label.end(), allowed))
      return false;
    if (label.size() == text.size()) return true;
    text.remove_prefix(label.size() + 1);
  }
}

Error not_certified(const Subject& subject, const std::string& prefix) {
  return {ErrorCode::kInvalidArgument,
          "common name " + quoted(subject.common_name.str()) + ": URI SAN " +
              quoted(subject.spiffe_id.str()) + " cannot be certified: use " + prefix +
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

Status add_extension(X509& certificate, int nid, void* value, Critical critical) {
  if (X509_add1_ext_i2d(&certificate, nid, value, critical == Critical::kYes ? 1 : 0,
                        X509V3_ADD_DEFAULT) != 1)
    return failure("X509_add1_ext_i2d");
  return {};
}

Status add_basic_constraints(X509& certificate, bool ca) {
  BasicConstraints value(BASIC_CONSTRAINTS_new());
  if (!value) return failure("BASIC_CONSTRAINTS_new");
  value->ca = ca ? 0xff : 0;
  if (ca) {  // leaves only below the root
    value->pathlen = ASN1_INTEGER_new();
    if (!value->pathlen || ASN1_INTEGER_set(value->pathlen, 0) != 1)
      return failure("ASN1_INTEGER_set");
  }
  return add_extension(certificate, NID_basic_constraints, value.get(), Critical::kYes);
}

Status add_key_usage(X509& certificate, std::initializer_list<KeyUsageBit> bits) {
  BitString value(ASN1_BIT_STRING_new());
  if (!value) return failure("ASN1_BIT_STRING_new");
  for (const KeyUsageBit bit : bits)
    if (ASN1_BIT_STRING_set_bit(value.get(), bit, 1) != 1)
      return failure("ASN1_BIT_STRING_set_bit");
  return add_extension(certificate, NID_key_usage, value.get(), Critical::kYes);
}

Status add_extended_usage(X509& certificate, Usage usage) {
  ExtendedUsage value(EXTENDED_KEY_USAGE_new());
  if (!value) return failure("EXTENDED_KEY_USAGE_new");
  const auto push = [&](int nid) {
    return sk_ASN1_OBJECT_push(value.get(), OBJ_nid2obj(nid)) > 0;  // static objects
  };
  if (for_servers(usage) && !push(NID_server_auth)) return failure("sk_ASN1_OBJECT_push");
  if (for_clients(usage) && !push(NID_client_auth)) return failure("sk_ASN1_OBJECT_push");
  return add_extension(certificate, NID_ext_key_usage, value.get(), Critical::kNo);
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
  if (Status pushed = push_name(*names, GEN_URI, subject.spiffe_id.str()); !pushed)
    return pushed.error();
  for (const std::string& dns : subject.dns_names)
    if (Status pushed = push_name(*names, GEN_DNS, dns); !pushed) return pushed.error();
  return names;
}

Status add_names(X509& certificate, const Subject& subject) {
  OSM_TRY(const Names names, names_of(subject));
  return add_extension(certificate, NID_subject_alt_name, names.get(), Critical::kNo);
}

Status add_key_ids(X509& certificate, X509& ca) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  OctetString subject(ASN1_OCTET_STRING_new());
  if (!subject ||
      X509_pubkey_digest(&certificate, EVP_sha1(), digest.data(), &size) != 1 ||  // RFC 5280's way
      ASN1_OCTET_STRING_set(subject.get(), digest.data(), static_cast<int>(size)) != 1)
    return failure("X509_pubkey_digest");
  if (auto added =
          add_extension(certificate, NID_subject_key_identifier, subject.get(), Critical::kNo);
      !added)
    return added;

  const ASN1_OCTET_STRING* ca_id =
      &certificate == &ca ? subject.get() : X509_get0_subject_key_id(&ca);
  if (!ca_id) return {};  // optional in a CA that is not ours
  KeyId authority(AUTHORITY_KEYID_new());
  if (!authority) return failure("AUTHORITY_KEYID_new");
  authority->keyid = ASN1_OCTET_STRING_dup(ca_id);
  if (!authority->keyid) return failure("ASN1_OCTET_STRING_dup");
  return add_extension(certificate, NID_authority_key_identifier, authority.get(), Critical::kNo);
}

std::time_t seconds_of(WallTime time) {
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

WallTime time_of(const ASN1_TIME* time) {
  std::tm utc{};
  if (!time || ASN1_TIME_to_tm(time, &utc) != 1) return WallTime{};
  // "No expiration" (RFC 5280: year 9999) does not fit into 64 bits of nanoseconds, nor does year
  // 0.
  constexpr std::int64_t kFarthest = 9'000'000'000;
  return WallTime{
      std::chrono::seconds(std::clamp<std::int64_t>(timegm(&utc), -kFarthest, kFarthest))};
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
  if (Status set = set_public_key(*certificate, key); !set) return set.error();
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

openssl::Bio read_only(std::string_view text) {
  return openssl::Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return {data, static_cast<std::size_t>(std::max(size, 0L))};
}

}  // namespace

bool for_servers(Usage usage) { return usage != Usage::kProxy && usage != Usage::kGateway; }
bool for_clients(Usage usage) {
  return usage == Usage::kWorkload || usage == Usage::kProxy || usage == Usage::kGateway;
}

Result<openssl::Key> generate_key(const KeyParameters& parameters) {
  if (parameters.type == KeyType::kEcdsaP256) {
    openssl::Key key(EVP_EC_gen("P-256"));
    if (!key) return failure("EVP_EC_gen");
    return key;
  }
  if (parameters.type == KeyType::kEd25519) {
    openssl::Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    if (!key) return failure("EVP_PKEY_Q_keygen");
    return key;
  }
  if (parameters.rsa_bits < 2048 || parameters.rsa_bits > 4096)
    return Error{ErrorCode::kInvalidArgument,
                 "RSA keys of " + std::to_string(parameters.rsa_bits) +
                     " bits are not issued: set MeshConfig's spec.certificate.certKeyBitSize to "
                     "2048 up to 4096"};
  openssl::Key key(EVP_RSA_gen(static_cast<unsigned>(parameters.rsa_bits)));
  if (!key) return failure("EVP_RSA_gen");
  return key;
}

Result<openssl::X509Handle> make_root(EVP_PKEY& key, const Lifetime& lifetime) {
  OSM_TRY(openssl::X509Handle root, new_certificate(key, lifetime));
  X509_NAME& name = *X509_get_subject_name(root.get());
  for (const Status& step :
       {add_name_entry(name, NID_commonName, kCaCommonName),
        add_name_entry(name, NID_organizationName, kOrganization),
        add_basic_constraints(*root, true), add_key_usage(*root, {kKeyCertSign, kCrlSign}),
        add_key_ids(*root, *root)})
    if (!step) return step.error();
  if (X509_set_issuer_name(root.get(), &name) != 1) return failure("X509_set_issuer_name");
  return sign(std::move(root), key);
}

Result<openssl::X509Handle> make_leaf(const Subject& subject, EVP_PKEY& subject_key,
                                      const Lifetime& lifetime, X509& ca, EVP_PKEY& ca_key) {
  OSM_TRY(openssl::X509Handle leaf, new_certificate(subject_key, lifetime));
  const bool rsa = EVP_PKEY_is_a(&subject_key, "RSA") == 1;
  for (const Status& step : {add_name_entry(*X509_get_subject_name(leaf.get()), NID_commonName,
                                            subject.common_name.str()),
                             add_basic_constraints(*leaf, false),
                             rsa ? add_key_usage(*leaf, {kDigitalSignature, kKeyEncipherment})
                                 : add_key_usage(*leaf, {kDigitalSignature}),
                             add_extended_usage(*leaf, subject.usage), add_names(*leaf, subject),
                             add_key_ids(*leaf, ca)})
    if (!step) return step.error();
  if (X509_set_issuer_name(leaf.get(), X509_get_subject_name(&ca)) != 1)
    return failure("X509_set_issuer_name");
  return sign(std::move(leaf), ca_key);
}

Result<openssl::Request> make_request(const Subject& subject, EVP_PKEY& key) {
  OSM_TRY(const Names names, names_of(subject));
  openssl::Request request(X509_REQ_new());
  if (!request) return failure("X509_REQ_new");
  if (auto added = add_name_entry(*X509_REQ_get_subject_name(request.get()), NID_commonName,
                                  subject.common_name.str());
      !added)
    return added.error();
  Extensions extensions(sk_X509_EXTENSION_new_null());
  STACK_OF(X509_EXTENSION)* list = extensions.get();
  if (!list ||
      X509V3_add1_i2d(&list, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) != 1)
    return failure("X509V3_add1_i2d");
  if (Status set = set_public_key(*request, key); !set) return set.error();
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
                 "common name " + quoted(name) +
                     " cannot be certified: use 1 to 1024 letters, digits, '.', '_' and '-'"};
  const std::string_view id = subject.spiffe_id.str();
  const std::size_t slash = id.find('/', std::min(kScheme.size(), id.size()));
  if (id.substr(0, kScheme.size()) != kScheme || id.size() > kMaxSpiffeId || slash == id.npos ||
      !is_name(id.substr(kScheme.size(), slash - kScheme.size())) ||
      !is_spiffe_path(id.substr(slash)))
    return not_certified(subject, "spiffe://<trust domain>");
  const bool takes_dns = subject.usage == Usage::kWebhook || subject.usage == Usage::kGateway;
  for (const std::string& dns : subject.dns_names)
    if (!takes_dns || !is_dns_name(dns))
      return Error{ErrorCode::kInvalidArgument,
                   "common name " + quoted(name) + ": DNS name " + quoted(dns) +
                       " cannot be certified: only webhooks and gateways have any, in lower case "
                       "and without wildcards"};
  if (subject.dns_names.size() > kMaxDnsNames ||
      (subject.usage == Usage::kWebhook && subject.dns_names.empty()))
    return Error{ErrorCode::kInvalidArgument,
                 "common name " + quoted(name) + " cannot be certified with " +
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

Result<std::string> to_pem(X509& certificate) {
  openssl::Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), &certificate) != 1)
    return failure("PEM_write_bio_X509");
  return text_of(*bio);
}

Result<std::string> to_pem(X509_REQ& request) {
  openssl::Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509_REQ(bio.get(), &request) != 1)
    return failure("PEM_write_bio_X509_REQ");
  return text_of(*bio);
}

Result<openssl::Key> parse_key(std::string_view pem) {
  openssl::Bio bio = read_only(pem);
  if (!bio) return failure("BIO_new_mem_buf");
  openssl::Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, openssl::no_passphrase, nullptr));
  if (!key) return Error{ErrorCode::kInvalidCertificate, "no unencrypted PEM private key"};
  if (openssl::Key(PEM_read_bio_PrivateKey(bio.get(), nullptr, openssl::no_passphrase, nullptr)))
    return Error{ErrorCode::kInvalidCertificate, "more than one private key"};
  return key;
}

Result<openssl::X509Handle> parse_certificate(std::string_view pem) {
  openssl::Bio bio = read_only(pem);
  if (!bio) return failure("BIO_new_mem_buf");
  openssl::X509Handle certificate(
      PEM_read_bio_X509(bio.get(), nullptr, openssl::no_passphrase, nullptr));
  if (!certificate) return Error{ErrorCode::kInvalidCertificate, "no PEM certificate"};
  if (openssl::X509Handle(PEM_read_bio_X509(bio.get(), nullptr, openssl::no_passphrase, nullptr)))
    return Error{ErrorCode::kInvalidCertificate, "more than one certificate"};
  return certificate;
}

Result<std::vector<openssl::X509Handle>> parse_certificates(std::string_view pem) {
  openssl::Bio bio = read_only(pem);
  if (!bio) return failure("BIO_new_mem_buf");
  std::vector<openssl::X509Handle> all;
  while (openssl::X509Handle next{
      PEM_read_bio_X509(bio.get(), nullptr, openssl::no_passphrase, nullptr)})
    all.push_back(std::move(next));
  // Only the end of the text is a valid reason to stop.
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
    return Error{ErrorCode::kInvalidCertificate,
                 "a certificate cannot be read: " + openssl::reason()};
  ERR_clear_error();
  if (all.empty()) return Error{ErrorCode::kInvalidCertificate, "no PEM certificate"};
  return all;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, 200)) out += (c >= ' ' && c <= '~') ? c : '?';
  return out + (text.size() > 200 ? "...\"" : "\"");
}

WallTime not_before(const X509& certificate) { return time_of(X509_get0_notBefore(&certificate)); }

WallTime not_after(const X509& certificate) { return time_of(X509_get0_notAfter(&certificate)); }

std::string serial_number(const X509& certificate) {
  openssl::BigNumber number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(&certificate), nullptr));
  const openssl::Handle<char, [](char* text) { OPENSSL_free(text); }> text(
      number ? BN_bn2hex(number.get()) : nullptr);
  std::string hex = text ? text.get() : "";
  std::transform(hex.begin(), hex.end(), hex.begin(), [](char c) {
    return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return hex;
}

Result<std::string> fingerprint(const X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (X509_digest(&certificate, EVP_sha256(), digest.data(), &size) != 1)
    return failure("X509_digest");
  return hex_of({digest.data(), size});
}

std::string issuer_key_id(X509& certificate) {
  const ASN1_OCTET_STRING* id = X509_get0_authority_key_id(&certificate);
  if (!id) return {};
  return hex_of({ASN1_STRING_get0_data(id), static_cast<std::size_t>(ASN1_STRING_length(id))});
}

}  // namespace osm::inline v1::certificate::x509
