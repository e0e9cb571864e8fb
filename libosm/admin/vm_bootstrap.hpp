// GET /v1/vm/subject, POST /v1/vm/bootstrap: the certificate and files with which a machine joins
// the mesh. Its key is made by whoever asks: it is not sent, and the controller never has it.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "osm/ids.hpp"
#include "osm/net/admin_api.hpp"

namespace osm::inline v1::admin {

// The JSON object of a request's body. Failure: kInvalidArgument.
Result<boost::json::object> body_of(const net::Request& request);
// The text of a field. Failure: kInvalidArgument naming it.
Result<std::string> required_text(const boost::json::object& fields, const char* name);
// The fields `name` and `namespace`. Failure: as above.
Result<WorkloadName> machine_of(const boost::json::object& fields);

// The subject and the kind of key that the machine's request for a certificate must have.
Result<net::Response> subject_of(const net::AdminApiOptions& options, const WorkloadName& machine);

// Finds what bootstrap() would refuse before it certifies anything.
Status check_bootstrap(const net::AdminApiOptions& options, const WorkloadName& machine,
                       const boost::json::object& body);

// Certifies the request, which must be for this machine's proxy and nobody else, and remembers the
// certificate as expected. `client`: who asks, for the audit log.
Result<net::Response> bootstrap(const net::AdminApiOptions& options, const WorkloadName& machine,
                                const boost::json::object& body, const std::string& client);

}  // namespace osm::inline v1::admin
