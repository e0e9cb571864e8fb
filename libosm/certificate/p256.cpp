#include "certificate/p256.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace osm::inline v1::certificate::p256 {
namespace {

using openssl::failure;

constexpr std::size_t kNumber = 32;
constexpr std::size_t kPoint = 1 + 2 * kNumber;  // 4 (uncompressed), x, y
constexpr unsigned char kUncompressed = 4;

// SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING of the point }
constexpr std::array<unsigned char, 26> kInfo{0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                              0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                              0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};

// SEQUENCE { 0, SEQUENCE { id-ecPublicKey, prime256v1 }, OCTET STRING of
//   SEQUENCE { 1, OCTET STRING of the number, [1] BIT STRING of the point } }
constexpr std::array<unsigned char, 36> kBeforeNumber{
    0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d,
    0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20};
constexpr std::array<unsigned char, 5> kBeforePoint{0xa1, 0x44, 0x03, 0x42, 0x00};

using Secret = openssl::Handle<BIGNUM, BN_clear_free>;
using Context = openssl::Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;

// Zeroed however it is left.
struct PrivateDer {
  std::array<unsigned char, kBeforeNumber.size() + kNumber + kBeforePoint.size() + kPoint> bytes;
  ~PrivateDer() { OPENSSL_cleanse(bytes.data(), bytes.size()); }
};

}  // namespace

bool is_p256(const EVP_PKEY& key) {
  char group[32] = {};
  return EVP_PKEY_is_a(&key, "EC") == 1 &&
         EVP_PKEY_get_group_name(&key, group, sizeof group, nullptr) == 1 &&
         std::string_view(group) == SN_X9_62_prime256v1;
}

Status set_public_key(X509_PUBKEY& info, EVP_PKEY& key) {
  unsigned char* bytes = nullptr;
  const std::size_t size = EVP_PKEY_get1_encoded_public_key(&key, &bytes);
  openssl::Buffer point(bytes);
  if (size == 0 ||
      X509_PUBKEY_set0_param(&info, OBJ_nid2obj(NID_X9_62_id_ecPublicKey), V_ASN1_OBJECT,
                             OBJ_nid2obj(NID_X9_62_prime256v1), bytes, static_cast<int>(size)) != 1)
    return failure("X509_PUBKEY_set0_param");
  (void)point.release();
  return {};
}

std::optional<openssl::Key> public_key(Bytes info) {
  if (info.size() != kInfo.size() + kPoint || info[kInfo.size()] != kUncompressed ||
      !std::equal(kInfo.begin(), kInfo.end(), info.begin()))
    return {};
  std::array<unsigned char, kPoint> point;
  std::copy_n(info.end() - kPoint, kPoint, point.begin());
  char group[] = SN_X9_62_prime256v1;
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
      OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size()),
      OSSL_PARAM_construct_end()};
  const Context context(EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (context && EVP_PKEY_fromdata_init(context.get()) == 1)
    (void)EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, parameters);
  return openssl::Key(key);
}

Result<PrivateKey> to_pem(const EVP_PKEY& key) {
  BIGNUM* bignum = nullptr;
  std::array<unsigned char, kPoint> point;
  std::size_t size = 0;
  if (EVP_PKEY_get_bn_param(&key, OSSL_PKEY_PARAM_PRIV_KEY, &bignum) != 1)
    return failure("EVP_PKEY_get_bn_param");
  const Secret number(bignum);
  PrivateDer der;
  unsigned char* at = std::copy(kBeforeNumber.begin(), kBeforeNumber.end(), der.bytes.data());
  if (BN_bn2binpad(number.get(), at, static_cast<int>(kNumber)) != static_cast<int>(kNumber))
    return failure("BN_bn2binpad");
  at = std::copy(kBeforePoint.begin(), kBeforePoint.end(), at + kNumber);
  if (EVP_PKEY_get_octet_string_param(&key, OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size(),
                                      &size) != 1 ||
      size != kPoint)
    return failure("EVP_PKEY_get_octet_string_param");
  std::copy(point.begin(), point.end(), at);

  // A secure-memory BIO zeroes its buffer when it grows and when it goes.
  const openssl::Bio bio(BIO_new(BIO_s_secmem()));
  if (!bio || PEM_write_bio(bio.get(), PEM_STRING_PKCS8INF, "", der.bytes.data(),
                            static_cast<long>(der.bytes.size())) == 0)
    return failure("PEM_write_bio");
  return PrivateKey(openssl::text_of(*bio));
}

}  // namespace osm::inline v1::certificate::p256
