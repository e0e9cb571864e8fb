#include <algorithm>

#include "certificate/x509.hpp"

namespace osm::inline v1::certificate::x509 {

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

}  // namespace osm::inline v1::certificate::x509
