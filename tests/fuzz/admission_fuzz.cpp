// Requests of an API server to the mutating webhook, with foreign content: an answer comes,
// bounded, that is a review of the same request; a pod that is let in fits its patch, and injecting
// it again changes nothing.
//
//   input: an AdmissionReview; or, after a first line "pod", a Pod alone.
#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "base/base64.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/quiet.hpp"
#include "inject/json_patch.hpp"
#include "osm/inject/injector.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_certificate_manager.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

// Every namespace is the mesh's, and enabled.
class Mesh {
 public:
  AdmissionAnswer review(std::string_view body) { return injector_->review(body); }
  std::size_t secrets = 0;

 private:
  static void check(const inject::BootstrapSecret& secret) {
    require(secret.name.starts_with("envoy-bootstrap-config-") && secret.files.size() == 6,
            "a bootstrap Secret is whole", secret.name);
  }

  testing::ManualClock clock_;
  testing::ManualExecutor executor_{clock_};
  RandomRng rng_{1};
  QuietLog log_;
  QuietMetrics metrics_;
  testing::MemoryCertificateManager certificates_{clock_};
  std::unique_ptr<inject::Injector> injector_ = inject::make_injector(
      {.certificates = certificates_,
       .find_namespace = [](const std::string& name) -> Result<inject::InjectionNamespace> {
         return inject::InjectionNamespace{name,
                                           {{"openservicemesh.io/monitored-by", "osm"}},
                                           {{"openservicemesh.io/sidecar-injection", "enabled"},
                                            {"openservicemesh.io/metrics", "enabled"}}};
       },
       .mesh_config = []() -> Result<MeshConfig> { return MeshConfig{}; },
       .write_secret =
           [this](const inject::BootstrapSecret& secret) {
             check(secret);
             ++secrets;
             return Status{};
           },
       .runtime = {executor_, executor_, clock_, rng_, log_, metrics_},
       .limits = {.per_second = 1 << 20, .per_second_per_namespace = 1 << 20},
       .envoy_image = "envoy",
       .init_container_image = "init",
       .native_sidecars = [] { return true; }});
};

json::value parsed(std::string_view text) {
  boost::system::error_code fault;
  json::parse_options options;
  options.max_depth = 128;
  return json::parse(text, fault, {}, options);
}

std::string review_of(json::value pod) {
  return json::serialize(json::object{
      {"apiVersion", "admission.k8s.io/v1"},
      {"kind", "AdmissionReview"},
      {"request", json::object{{"uid", "the-uid"},
                               {"operation", "CREATE"},
                               {"namespace", "shop"},
                               {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                               {"object", std::move(pod)}}}});
}

// Result: the object with its patch; null when there is none.
json::value patched(const AdmissionAnswer& answer, const std::string& body) {
  const json::value got = parsed(answer.body);
  require(answer.status == (body.empty() ? 400 : 200), "only who says nothing has no review");
  if (answer.status == 400) {
    require(got.at("error").at("message").is_string(), "who asks nonsense is told", answer.body);
    return nullptr;
  }
  const json::object& response = got.at("response").as_object();
  if (!response.at("allowed").as_bool()) {
    require(!response.at("status").at("message").as_string().empty(), "a refusal says why");
    return nullptr;
  }
  const json::value sent = parsed(body);
  require(response.at("uid") == sent.at("request").at("uid"), "the uid is the request's");
  const json::value* patch = response.if_contains("patch");
  if (patch == nullptr) return nullptr;
  const auto text = from_base64(std::string_view(patch->as_string()));
  require(text.has_value(), "a patch is base64");
  try {
    return inject_test::apply_patch(sent.at("request").at("object").as_object(),
                                    parsed(*text).as_array());
  } catch (const std::exception& refused) {
    require(false, "a patch applies", refused.what());
    return nullptr;
  }
}

void run(std::string_view input) {
  constexpr std::string_view kPod = "pod\n";
  static Mesh mesh;
  std::string body(input);
  if (input.starts_with(kPod)) body = review_of(parsed(input.substr(kPod.size())));
  const std::size_t before = mesh.secrets;
  const AdmissionAnswer answer = mesh.review(body);
  require(answer.body.size() < 4 * body.size() + 256 * 1024, "an answer is bounded");
  json::value pod = patched(answer, body);
  require(mesh.secrets == before || !pod.is_null(), "who is refused leaves nothing behind");
  if (pod.is_null()) return;
  json::value again = parsed(body);
  again.at("request").as_object()["object"] = std::move(pod);
  const std::string second = json::serialize(again);
  const json::value once_more = patched(mesh.review(second), second);
  require(once_more.is_null(), "injecting again changes nothing", json::serialize(once_more));
}

const bool kAdded = add("admission", [](std::string_view input) { run(input); });

}  // namespace
