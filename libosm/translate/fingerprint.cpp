#include "translate/fingerprint.hpp"

#include <google/protobuf/any.pb.h>
#include <openssl/evp.h>

#include <array>
#include <string_view>
#include <vector>

#include "base/base64.hpp"
#include "base/hex.hpp"
#include "envoy/extensions/transport_sockets/tls/v3/secret.pb.h"

namespace osm::inline v1::translate {
namespace {

namespace tls = envoy::extensions::transport_sockets::tls::v3;

// SHA-256 of each certificate in a PEM text, in lower-case hex, as openssl prints it. Other content
// of the text is skipped.
std::vector<std::string> certificate_fingerprints(std::string_view pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
  std::vector<std::string> fingerprints;
  for (auto begin = pem.find(kBegin); begin != pem.npos; begin = pem.find(kBegin)) {
    pem.remove_prefix(begin + kBegin.size());
    const auto end = pem.find(kEnd);
    if (end == pem.npos) break;
    std::string text(pem.substr(0, end));
    std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == ' '; });
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned int size = 0;
    const auto der = from_base64(text);
    if (der && EVP_Digest(der->data(), der->size(), digest.data(), &size, EVP_sha256(), nullptr))
      fingerprints.push_back(hex_of({digest.data(), size}));
    pem.remove_prefix(end + kEnd.size());
  }
  return fingerprints;
}

std::string fingerprint_text(const std::string& pem) {
  std::string text;
  for (const std::string& fingerprint : certificate_fingerprints(pem))
    text += (text.empty() ? "sha256:" : " sha256:") + fingerprint;
  return text.empty() ? "no readable certificate" : text;
}

}  // namespace

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
