#pragma once

#include <memory>

#include "cert_manager/requester.hpp"
#include "osm/certificate/cert_manager.hpp"

namespace osm::inline v1::cert_manager {

// make_issuer() with a thread that waits as it is told.
Result<std::unique_ptr<certificate::Issuer>> make_issuer(const IssuerOptions& options,
                                                         const Sleep& sleep);

}  // namespace osm::inline v1::cert_manager
