#pragma once

#include <memory>

#include "cert_manager/requester.hpp"
#include "osm/certificate/cert_manager.hpp"

namespace osm::inline v1::cert_manager {

// make_issuer() with a replaceable sleep, for tests.
Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options,
                                                         const Sleep& sleep);

}  // namespace osm::inline v1::cert_manager
