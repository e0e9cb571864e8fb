// Texts of users, proxies and replicas in the status of a policy: a patch has our two conditions
// alone, fits the API's limits, and is not written again while nothing changes.
//
//   input: '0' to '3' the phase, a digit: how often each text is repeated (times 50), '1' if the
//   problem refuses; then lines: problem's field and cause, proxy's detail, another replica's name,
//   generation.
#include <charconv>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/one_object_api.hpp"
#include "fuzz/quiet.hpp"
#include "kubernetes/upkeep/status_writer.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "osm/testing/memory_object_store.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;
using namespace kubernetes;

const ObjectKey kTarget{kinds::kTrafficTarget, "shop", "web-api"};
constexpr std::size_t kMaxMessage = 32768;  // of metav1.Condition

class PatchedApi final : public OneObjectApi {
 public:
  std::vector<json::object> statuses;

  Result<Object> patch(const Resource&, const std::string& ns, const std::string& name,
                       const Patch& patch) override {
    require(ns == kTarget.ns && name == kTarget.name && patch.subresource == "status" &&
                patch.type == PatchType::kApply,
            "only the status of the policy is patched", ns + '/' + name);
    require(is_utf8(patch.body), "a patch is UTF-8", patch.body);
    const auto body = parse_json_object(patch.body, "");
    require(body.ok() && body->size() == 4 && map_at(*body, "status").size() == 1,
            "a patch has the conditions alone", patch.body);
    statuses.push_back(map_at(*body, "status"));
    return Object();
  }
};

std::string repeated(const std::string& text, std::size_t times) {
  std::string out = text;
  for (std::size_t i = 1; i < times; ++i) out += text;
  return to_utf8(out);
}

void put_objects(testing::MemoryObjectStore& store, const std::string& generation_text) {
  Object ns;
  ns.key = {kinds::kNamespace, "", "shop"};
  ns.labels["openservicemesh.io/monitored-by"] = "osm";
  ns.document = std::make_shared<const json::value>(json::object());
  store.put(std::move(ns));
  std::int64_t generation = 1;
  std::from_chars(generation_text.data(), generation_text.data() + generation_text.size(),
                  generation);
  Object policy;
  policy.key = kTarget;
  policy.document = std::make_shared<const json::value>(json::object{
      {"metadata",
       json::object{{"name", "web-api"}, {"namespace", "shop"}, {"generation", generation}}}});
  store.put(std::move(policy));
}

void check(const json::object& status, ObjectPhase phase) {
  const json::array& conditions = list_at(status, "conditions");
  require(conditions.size() == 2, "a status has two conditions");
  for (const json::value& one : conditions) {
    const std::string type = text_at(one, "type");
    const std::string truth = text_at(one, "status");
    require(type == "Accepted" || type == "Programmed", "a condition is ours", type);
    require(truth == "True" || truth == "False", "a condition is true or false", truth);
    require(!text_at(one, "reason").empty() && !text_at(one, "lastTransitionTime").empty(),
            "a condition has a reason and a time");
    require(text_at(one, "message").size() <= kMaxMessage, "a message fits the API's limit");
    if (type == "Accepted")
      require((truth == "False") == (phase == ObjectPhase::kRejected),
              "a policy that is left out is not accepted");
    else
      require(truth == "False" || phase == ObjectPhase::kApplied,
              "a policy is programmed when it is applied");
  }
}

void run(Choices choices) {
  constexpr ObjectPhase kPhases[] = {ObjectPhase::kApplied, ObjectPhase::kPending,
                                     ObjectPhase::kRefused, ObjectPhase::kRejected};
  ObjectStatus status;
  status.object = kTarget;
  status.phase = kPhases[choices.below(4)];
  const std::size_t times = choices.below(10) * 50 + 1;
  const bool faulty = choices.flag() || status.phase == ObjectPhase::kRejected;
  const std::string field = repeated(choices.line(200), 1);
  const std::string cause = repeated(choices.line(200), times);
  const std::string detail = repeated(choices.line(200), times);
  const std::string other = repeated(choices.line(200), 1);
  testing::MemoryObjectStore store;
  put_objects(store, choices.line(20));
  if (faulty) status.problems.assign(3, {ErrorCode::kInvalidField, kTarget, "", 0, field, cause});
  status.concerned = 7;
  status.replicas = 2;
  if (!other.empty()) status.replicas_unknown = {other};
  status.applied = status.phase == ObjectPhase::kApplied ? 7 : 2;
  if (status.phase == ObjectPhase::kRefused)
    status.lagging.assign(5, {ProxyId("p"), {"shop", "web-1"}, true, detail});

  testing::ManualClock clock;
  testing::ManualExecutor executor(clock);
  RandomRng rng(1);
  QuietLog log;
  QuietMetrics metrics;
  PatchedApi api;
  StatusWriter writer(api, {executor, executor, clock, rng, log, metrics},
                      {.store = store,
                       .status_of = [&](const ObjectKey&) { return Result<ObjectStatus>(status); },
                       .problems = [&] { return status.problems; },
                       .may_write = [] { return true; },
                       .replica = "controller-a"});
  executor.run_for(std::chrono::seconds(5));
  require(api.statuses.size() == 1, "a status is written once");
  check(api.statuses.front(), status.phase);
  writer.on_mesh();
  executor.run_for(std::chrono::minutes(2));
  require(api.statuses.size() == 1, "a status is not written again while nothing changes");
  for (const json::object& event : api.created)
    require(text_at(event, "note").size() <= 1024 && is_utf8(json::serialize(event)),
            "an Event fits the API's limits");
}

const bool kAdded = add("status_patch", [](std::string_view input) { run(Choices(input)); });

}  // namespace
