// A request of an operator → the admin API of osm-controller, on a control plane in memory (without
// its gRPC server): every answer is JSON with a status that the request deserves, and none holds a
// key.
//
//   input: method ('0' GET, '1' POST, '2' a line), path ('0' to ':' a route, ';' a line), a line
//   of query, then the body.
#include <array>
#include <boost/json.hpp>
#include <memory>
#include <string>

#include "fuzz/object_edits.hpp"
#include "fuzz/quiet.hpp"
#include "lib/no_roots.hpp"
#include "osm/control_plane.hpp"
#include "osm/inject/validator.hpp"
#include "osm/net/admin_api.hpp"
#include "osm/runtime/system.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "osm/spec/object_writer.hpp"
#include "osm/spec/vm_provider.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/memory_certificate_manager.hpp"
#include "osm/testing/memory_object_store.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 16> kPaths{
    "/v1/version",       "/v1/proxies",        "/v1/proxies/config_dump", "/v1/policy/check",
    "/v1/problems",      "/v1/certificates",   "/v1/certificates/rotate", "/v1/vm/bootstrap",
    "/v1/status",        "/v1/vm/subject",     "/v1/policy/explain",      "/v1/objects",
    "/v1/objects/apply", "/v1/objects/delete", "/v1/vm/tokens",           "/v1/providers"};

testing::MemoryObjectStore& base_mesh() {
  static testing::MemoryObjectStore store;
  for (const json::value& document : base_objects())
    require(store.put_yaml(json::serialize(document)).ok(), "the base mesh is valid");
  return store;
}

// Says that it writes: the next input finds the same mesh.
class Writer final : public spec::ObjectWriter {
 public:
  Result<spec::StoredObject> read(const ObjectKey& key) override {
    auto object = base_mesh().get(key);
    return spec::StoredObject{object ? "1" : "", std::move(object)};
  }
  Result<std::string> write(const Object& object, const std::string& expected) override {
    require(expected == (base_mesh().get(object.key) ? "1" : ""), "a write knows what it replaces");
    return std::string("2");
  }
  Status remove(const ObjectKey& key, const std::string& expected) override {
    require(expected == "1" && base_mesh().get(key), "what is removed was there", key.str());
    return {};
  }
};

// Lives until the process ends.
struct Controller {
  Controller() {
    auto started = ControlPlane::start({.spec = *spec,
                                        .providers = {{machines.get(), true}},
                                        .workload_providers = {machines.get()},
                                        .certificates = manager,
                                        .runtime = {executor, blocking, clock, rng, log, metrics},
                                        .ads_address = ""});
    require(started.ok(), "a control plane starts", started.ok() ? "" : started.error().text());
    control_plane = *std::move(started);
    require(testing::wait_until([&] { return control_plane->status().waiting_for.empty(); }),
            "a control plane in memory is ready at once");
    api = net::make_admin_api({.runtime = {executor, blocking, clock, rng, log, metrics},
                               .control_plane = *control_plane,
                               .spec = *spec,
                               .certificates = manager,
                               .store = &store,
                               .workloads = machines.get(),
                               .writer = &writer,
                               .validator = validator.get(),
                               .root_rotation = &roots});
  }

  testing::ManualClock clock;
  RandomRng rng{1};
  QuietLog log;
  QuietMetrics metrics;
  testing::ThreadExecutor executor{1};
  testing::ThreadExecutor blocking{1};
  testing::MemoryObjectStore& store = base_mesh();
  std::unique_ptr<MeshSpec> spec =
      spec::make_mesh_spec({.store = store, .log = log, .metrics = metrics});
  std::unique_ptr<vm::VmProvider> machines =
      vm::make_vm_provider({store, *spec, TrustDomain("cluster.local"), log, metrics});
  testing::MemoryCertificateManager manager{clock};
  testing::NoRoots roots;
  Writer writer;
  std::unique_ptr<inject::Validator> validator =
      inject::make_validator({.mesh_spec = *spec, .metrics = metrics, .store = &store});
  std::unique_ptr<ControlPlane> control_plane;
  net::Handler api;
};

void check(const net::Response& response) {
  boost::system::error_code fault;
  const json::value body = json::parse(response.body, fault);
  require(!fault && body.is_object(), "an answer is a JSON object", response.body);
  require(response.content_type == "application/json", "an answer says that it is JSON");
  const json::value* error = body.as_object().if_contains("error");
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
}

void run(Choices choices) {
  static Controller& controller = *new Controller;
  const std::array<std::string, 2> methods{"GET", "POST"};
  const std::size_t method = choices.below(3);
  net::Request request;
  const std::string name = method == 2 ? choices.line(20) : methods[method];
  const std::size_t path = choices.below(kPaths.size() + 1);
  const std::string target =
      path < kPaths.size() ? std::string(kPaths[path]) : '/' + choices.line(200);
  auto parsed = net::parse_target(target + '?' + choices.line(1000));
  if (!parsed.ok()) return;
  request = *std::move(parsed);
  request.method = name;
  request.body = std::string(choices.rest());
  check(controller.api(request));
}

const bool kAdded = add("admin", [](std::string_view input) { run(Choices(input)); });

}  // namespace
