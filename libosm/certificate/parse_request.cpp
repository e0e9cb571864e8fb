// Requests as strangers write them.
#include <openssl/pem.h>

#include <optional>
#include <utility>

#include "certificate/p256.hpp"
#include "certificate/x509.hpp"

namespace osm::inline v1::certificate::x509 {
namespace {

using openssl::failure;
using p256::Bytes;

struct RequestDer {
  openssl::Buffer bytes;
  long size = 0;
};

Result<RequestDer> request_der(std::string_view pem) {
  const openssl::Bio bio = openssl::reader_of(pem);
  if (!bio) return failure("BIO_new_mem_buf");
  unsigned char* bytes = nullptr;
  RequestDer der;
  if (PEM_bytes_read_bio(&bytes, &der.size, nullptr, PEM_STRING_X509_REQ, bio.get(),
                         openssl::no_passphrase, nullptr) != 1)
    return Error{ErrorCode::kInvalidArgument, "no PEM certificate request (PKCS#10)"};
  der.bytes.reset(bytes);
  if (BIO_pending(bio.get()) != 0)
    return Error{ErrorCode::kInvalidArgument, "more than one certificate request"};
  return der;
}

// An element of DER: with its header, and what is in it.
struct Element {
  Bytes whole;
  Bytes content;
};

// The first of `rest`, which is what follows it afterwards; empty when there is none.
Element next_element(Bytes& rest) {
  const unsigned char* at = rest.data();
  long size = 0;
  int tag = 0;
  int tag_class = 0;
  const int kind = ASN1_get_object(&at, &size, &tag, &tag_class, static_cast<long>(rest.size()));
  constexpr int kError = 0x80;
  constexpr int kIndefiniteLength = 0x01;
  if ((kind & (kError | kIndefiniteLength)) != 0) return {};
  const auto header = static_cast<std::size_t>(at - rest.data());
  const auto length = static_cast<std::size_t>(size);
  const Element found{rest.first(header + length), rest.subspan(header, length)};
  rest = rest.subspan(header + length);
  return found;
}

// CertificationRequest, CertificationRequestInfo: version, subject, subjectPKInfo (RFC 2986).
Bytes key_info(Bytes request) {
  Bytes content = next_element(request).content;
  Bytes info = next_element(content).content;
  (void)next_element(info);
  (void)next_element(info);
  return next_element(info).whole;
}

}  // namespace

Result<openssl::Request> parse_request(std::string_view pem) {
  OSM_TRY(const RequestDer der, request_der(pem));
  const unsigned char* at = der.bytes.get();
  openssl::Request request(d2i_X509_REQ(nullptr, &at, der.size));
  if (!request) return Error{ErrorCode::kInvalidArgument, "no PEM certificate request (PKCS#10)"};
  return request;
}

Result<openssl::Key> parse_request_key(std::string_view pem) {
  OSM_TRY(const RequestDer der, request_der(pem));
  const Bytes info = key_info({der.bytes.get(), static_cast<std::size_t>(der.size)});
  std::optional<openssl::Key> key = p256::public_key(info);
  if (!key) {
    const unsigned char* at = info.data();
    key.emplace(d2i_PUBKEY(nullptr, &at, static_cast<long>(info.size())));
  }
  if (!*key) return Error{ErrorCode::kInvalidArgument, "its key cannot be read"};
  return *std::move(key);
}

}  // namespace osm::inline v1::certificate::x509
