// The names in a certificate or a request, read byte by byte: a name may contain a NUL.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/openssl.hpp"
#include "osm/certificate/manager.hpp"

namespace osm::inline v1::certificate::x509 {

// The subject alternative names, in their order, unchecked.
struct AlternativeNames {
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  bool others = false;  // there are names of other types
};
AlternativeNames alternative_names(const GENERAL_NAMES* names);
AlternativeNames alternative_names(const X509& certificate);
// True if these are exactly the subject's.
bool same_names(const AlternativeNames& names, const Subject& subject);

// The value of the only common name; nothing if there is none, or if there are several.
std::optional<std::string> common_name(const X509_NAME& name);

}  // namespace osm::inline v1::certificate::x509
