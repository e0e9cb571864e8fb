// A control plane in memory over one mesh with every kind of object, without its gRPC server, for
// fuzzers of its HTTP APIs.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "fuzz/object_edits.hpp"
#include "fuzz/quiet.hpp"
#include "osm/control_plane.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/runtime/system.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/testing/thread_executor.hpp"

namespace osm::fuzz {

// With base_objects(), whatever was written before.
inline testing::MemoryObjectStore& base_mesh() {
  static testing::MemoryObjectStore store;
  for (const boost::json::value& document : base_objects())
    require(store.put_yaml(boost::json::serialize(document)).ok(), "the base mesh is valid");
  return store;
}

// Lives until the process ends.
struct MemoryController {
  MemoryController() {
    auto started = ControlPlane::start({.spec = *spec,
                                        .providers = {{machines.get(), true}},
                                        .workload_providers = {machines.get()},
                                        .certificates = manager,
                                        .runtime = runtime,
                                        .ads_address = ""});
    require(started.ok(), "a control plane starts", started.ok() ? "" : started.error().text());
    control_plane = *std::move(started);
    require(testing::wait_until([&] { return control_plane->status().waiting_for.empty(); }),
            "a control plane in memory is ready at once");
  }

  net::AdminApiOptions options() {
    return {.runtime = runtime,
            .control_plane = *control_plane,
            .spec = *spec,
            .certificates = manager,
            .store = &store,
            .workloads = machines.get()};
  }

  testing::ManualClock clock;
  RandomRng rng{1};
  QuietLog log;
  QuietMetrics metrics;
  testing::ThreadExecutor executor{1};
  testing::ThreadExecutor blocking{1};
  const Runtime runtime{executor, blocking, clock, rng, log, metrics};
  testing::MemoryObjectStore& store = base_mesh();
  std::unique_ptr<MeshSpec> spec =
      spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  std::unique_ptr<vm::VmProvider> machines =
      vm::make_vm_provider({store, *spec, TrustDomain("cluster.local"), log, metrics});
  testing::MemoryCertificateManager manager{clock};
  std::unique_ptr<ControlPlane> control_plane;
};

// The body of an answer, which is JSON with a status that the request deserves, and holds no key.
inline boost::json::object checked(const net::Response& response) {
  boost::system::error_code fault;
  const boost::json::value body = boost::json::parse(response.body, fault);
  require(!fault && body.is_object(), "an answer is a JSON object", response.body);
  require(response.content_type == "application/json", "an answer says that it is JSON");
  const boost::json::value* error = body.as_object().if_contains("error");
  require((error != nullptr) == (response.status >= 400), "a failure is an error", response.body);
  require(response.status < 500, "no request is the server's fault", response.body);
  if (error != nullptr)
    require(!error->at("code").as_string().empty() && !error->at("message").as_string().empty(),
            "an error says what and why", response.body);
  // Keys of certificates in memory are "key <number> of <name>". A refusal may quote the request,
  // and so may a text of an explanation, in which a quotation mark has a backslash.
  require(error != nullptr || (response.body.find(":\"key ") == std::string::npos &&
                               response.body.find("[\"key ") == std::string::npos &&
                               response.body.find(",\"key ") == std::string::npos),
          "no answer holds a key", response.body);
  return body.as_object();
}

}  // namespace osm::fuzz
