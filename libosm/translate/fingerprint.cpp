#include "translate/fingerprint.hpp"

#include <google/protobuf/any.pb.h>
#include <openssl/evp.h>

#include <array>

#include "base/hex.hpp"
#include "envoy/extensions/transport_sockets/tls/v3/secret.pb.h"

namespace osm::inline v1::translate {
namespace {

namespace tls = envoy::extensions::transport_sockets::tls::v3;

std::optional<std::string> fingerprint_of_base64(std::string_view armoured) {
  std::string base64;
  for (const char c : armoured)
    if (c != '\n' && c != '\r' && c != ' ') base64 += c;
  std::string der(base64.size() / 4 * 3 + 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(der.data()),
                                   reinterpret_cast<const unsigned char*>(base64.data()),
                                   static_cast<int>(base64.size()));
  if (size < 0) return std::nullopt;
  // EVP_DecodeBlock counts the padding as zero bytes.
  std::size_t length = static_cast<std::size_t>(size);
  if (base64.ends_with("=="))
    length -= 2;
  else if (base64.ends_with('='))
    length -= 1;

  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int digest_size = 0;
  if (EVP_Digest(der.data(), length, digest.data(), &digest_size, EVP_sha256(), nullptr) != 1)
    return std::nullopt;
  return hex_of({digest.data(), digest_size});
}

std::string fingerprint_text(const std::string& pem) {
  std::string text;
  for (const std::string& fingerprint : certificate_fingerprints(pem))
    text += (text.empty() ? "sha256:" : " sha256:") + fingerprint;
  return text.empty() ? "no readable certificate" : text;
}

}  // namespace

std::vector<std::string> certificate_fingerprints(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
  std::vector<std::string> fingerprints;
  for (auto begin = pem.find(kBegin); begin != pem.npos; begin = pem.find(kBegin)) {
    pem.remove_prefix(begin + kBegin.size());
    const auto end = pem.find(kEnd);
    if (end == pem.npos) break;
    if (auto fingerprint = fingerprint_of_base64(pem.substr(0, end)))
      fingerprints.push_back(std::move(*fingerprint));
    pem.remove_prefix(end + kEnd.size());
  }
  return fingerprints;
}

std::optional<google::protobuf::Struct> redacted_secret(const std::string& any) {
  google::protobuf::Any packed;
  tls::Secret secret;
  if (!packed.ParseFromString(any) || !packed.UnpackTo(&secret)) return std::nullopt;

  // Build the result from permitted fields only, instead of removing forbidden ones.
  google::protobuf::Struct shown;
  auto& fields = *shown.mutable_fields();
  fields["@type"].set_string_value(packed.type_url());
  fields["name"].set_string_value(secret.name());
  const auto show = [&](const char* kind, const char* field, const std::string& pem) {
    auto& inner = *fields[kind].mutable_struct_value()->mutable_fields();
    auto& source = *inner[field].mutable_struct_value()->mutable_fields();
    source["inline_string"].set_string_value(fingerprint_text(pem));
  };
  if (secret.has_tls_certificate())
    show("tls_certificate", "certificate_chain",
         secret.tls_certificate().certificate_chain().inline_string());
  if (secret.has_validation_context())
    show("validation_context", "trusted_ca",
         secret.validation_context().trusted_ca().inline_string());
  return shown;
}

}  // namespace osm::inline v1::translate
