// The names that a certificate or a request says, read byte by byte: a name may hold a NUL.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "certificate/openssl.hpp"
#include "osm/certificate/manager.hpp"

namespace osm::inline v1::certificate::x509 {

// The subject alternative names, in their order; what a name holds is not looked at.
struct AlternativeNames {
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  bool others = false;  // of another type
};
AlternativeNames alternative_names(const GENERAL_NAMES* names);
AlternativeNames alternative_names(const X509& certificate);
// Whether these are exactly the subject's.
bool same_names(const AlternativeNames& names, const Subject& subject);

// The value of the only common name; nothing when there are none or several.
std::optional<std::string> common_name(const X509_NAME& name);

}  // namespace osm::inline v1::certificate::x509
