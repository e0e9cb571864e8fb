// A request of an operator → the admin API of osm-controller, on a control plane in memory (without
// its gRPC server): every answer is JSON with a status that the request deserves, and none holds a
// key.
//
//   input: method ('0' GET, '1' POST, '2' a line), path ('0' to 'I' a route, 'J' a line), a line
//   of query, then the body.
#include <array>
#include <memory>
#include <string>

#include "fuzz/memory_controller.hpp"
#include "lib/no_roots.hpp"
#include "osm/inject/validator.hpp"
#include "osm/spec/object_writer.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

constexpr std::array<std::string_view, 26> kPaths{"/v1/version",
                                                  "/v1/proxies",
                                                  "/v1/proxies/config_dump",
                                                  "/v1/policy/check",
                                                  "/v1/problems",
                                                  "/v1/certificates",
                                                  "/v1/certificates/rotate",
                                                  "/v1/vm/bootstrap",
                                                  "/v1/status",
                                                  "/v1/vm/subject",
                                                  "/v1/policy/explain",
                                                  "/v1/objects",
                                                  "/v1/objects/apply",
                                                  "/v1/objects/delete",
                                                  "/v1/vm/tokens",
                                                  "/v1/providers",
                                                  "/v1/graph",
                                                  "/v1/denied",
                                                  "/v1/roots",
                                                  "/v1/roots/distrust",
                                                  "/v1/vm/drain",
                                                  "/v1/vm/drained",
                                                  "/v1/services",
                                                  "/v1/identities",
                                                  "/v1/policies",
                                                  "/v1/proxies/services"};

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

struct Controller : MemoryController {
  Controller() {
    net::AdminApiOptions with = options();
    with.writer = &writer;
    with.validator = validator.get();
    with.root_rotation = &roots;
    api = net::make_admin_api(with);
  }

  testing::NoRoots roots;
  Writer writer;
  std::unique_ptr<inject::Validator> validator =
      inject::make_validator({.mesh_spec = *spec, .metrics = metrics, .store = &store});
  net::Handler api;
};

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
  checked(controller.api(request));
}

const bool kAdded = add("admin", [](std::string_view input) { run(Choices(input)); });

}  // namespace
