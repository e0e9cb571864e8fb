// The parts that bootstrap() and join() share: a machine's key, and the controller's answers as
// files.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "osm/certificate/request.hpp"
#include "osm/machine/bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::machine {

// Makes the directory, a key of the kind that the mesh asks for, and a request for the machine's
// names. `subject`: the controller's answer. Failure: kInternal (the answer is of another version);
// kStorage, if the directory cannot be made or written to; kConflict, if it has another machine's
// files, or other files of their names.
Result<certificate::KeyAndRequest> prepare(const boost::json::object& subject,
                                           const std::string& directory);

// Adds the members of `options` to the body of a request for the files.
void add_proxy(boost::json::object& body, const ProxyOptions& options);

// Writes the key and the files of the controller's answer. Result: what was written. Failure:
// kStorage naming the file and the remedy; kInternal (the answer is of another version).
Result<Bootstrapped> write_bootstrap(const boost::json::object& answer,
                                     const certificate::PrivateKey& key,
                                     const ProxyOptions& options);

}  // namespace osm::inline v1::machine
