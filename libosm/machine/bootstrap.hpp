// The parts that bootstrap() and join() share: a machine's key, and the controller's answers as
// files.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>

#include "osm/certificate/request.hpp"
#include "osm/machine/bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// The user that owns the proxy's files: the given one, or the default for this process.
std::uint32_t owner_of(const ProxyOptions& options);

// Makes the directory, a key of the kind that the mesh asks for, and a request for the machine's
// names. `subject`: the controller's answer. Failure: those of bootstrap() before the certificate.
Result<certificate::KeyAndRequest> prepare(const boost::json::object& subject,
                                           const ProxyOptions& options);

// Adds the members of `options` to the body of a request for the files.
void add_proxy(boost::json::object& body, const ProxyOptions& options);

// Writes the key and the files of the controller's answer. Result: what was written. Failure:
// kStorage naming the file and the remedy; kInternal (the answer is of another version).
Result<Bootstrapped> write_bootstrap(const boost::json::object& answer,
                                     const certificate::PrivateKey& key,
                                     const ProxyOptions& options);

}  // namespace osm::inline v1::machine
