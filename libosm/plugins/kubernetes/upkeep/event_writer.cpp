#include "kubernetes/upkeep/event_writer.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <utility>

#include "base/digest.hpp"
#include "base/json.hpp"
#include "base/times.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/upkeep/labels.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr Counter kEventsWritten{"osm_events_written_total", "Events about refusals written"};

constexpr const char* kController = "openservicemesh.io/osm-controller";
constexpr std::size_t kMaxNoteBytes = 1024;  // limit of the API
constexpr std::size_t kMaxReplicaBytes = 128;
constexpr std::size_t kMaxNamedBytes = 200;  // limit of the object's name in the Event's own name
constexpr double kEventBurst = 25;
constexpr std::chrono::seconds kEventSpacing{2};

}  // namespace

std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  text.resize(bytes);
  // Do not cut inside a character.
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
  return text;
}

std::string reason_text(ErrorCode code) {
  std::string out;
  bool upper = true;
  for (char c : error_code_text(code)) {
    if (c == '-') {
      upper = true;
      continue;
    }
    out.push_back(upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c);
    upper = false;
  }
  return out;
}

Status write_event(Api& api, const Runtime& runtime, const std::string& replica,
                   const Problem& problem, const Object& object) {
  const json::value& root = *object.document;
  const std::string uid = text_at(map_at(root, "metadata"), "uid");
  const std::string field = problem.field.empty() ? "" : problem.field + ": ";
  const std::string note = cut(field + problem.cause, kMaxNoteBytes);
  // Unambiguous: the first two parts contain no blank.
  const Digest digest =
      digest_of(uid + ' ' + std::string(error_code_text(problem.code)) + ' ' + note);
  // Events of objects without a namespace are in "default".
  const std::string ns = object.key.ns.empty() ? "default" : object.key.ns;
  json::object event = new_object(
      kEvents, ns, cut(object.key.name, kMaxNamedBytes) + '.' + digest.hex().substr(0, 16),
      name_label());
  event["eventTime"] = rfc3339(runtime.clock.wall_now(), 6);
  event["reportingController"] = kController;
  event["reportingInstance"] = cut(replica, kMaxReplicaBytes);
  event["type"] = "Warning";
  event["reason"] = reason_text(problem.code);
  event["action"] = "Configure";
  event["note"] = note;
  event["regarding"] = {{"apiVersion", object.api_version},
                        {"kind", object.key.kind},
                        {"namespace", object.key.ns},
                        {"name", object.key.name},
                        {"uid", uid}};
  const auto created = api.create(kEvents, event);
  if (created.ok()) runtime.metrics.add(kEventsWritten, {}, 1);
  if (created.ok() || created.error().code == ErrorCode::kAlreadyExists) return {};
  return created.error();
}

EventWriter::EventWriter(Api& api, const Runtime& runtime, const ObjectStore& store,
                         std::string replica)
    : api_(api),
      runtime_(runtime),
      store_(store),
      replica_(std::move(replica)),
      budget_(runtime_.clock, kEventBurst, kEventSpacing) {}

void EventWriter::tell(const std::vector<Problem>& problems) {
  behind_ = false;
  const std::set<Problem> present(problems.begin(), problems.end());
  std::erase_if(told_, [&](const Problem& problem) { return !present.contains(problem); });
  // Begins where the budget ended, so that problems that come and go do not delay the others.
  std::vector<Problem> in_turn(present.begin(), present.end());
  if (const auto next = std::exchange(next_, std::nullopt))
    std::ranges::rotate(in_turn, std::ranges::lower_bound(in_turn, *next));
  for (const Problem& problem : in_turn) {
    if (problem.object.kind.empty() || severity_of(problem.code) == Severity::kNotice) continue;
    if (told_.contains(problem)) continue;
    const auto object = store_.get(problem.object);
    if (!object) continue;
    if (!budget_.take()) {
      behind_ = true;
      next_ = problem;
      return;
    }
    if (write(problem, *object)) told_.insert(problem);
  }
}

bool EventWriter::write(const Problem& problem, const Object& object) {
  const Status written = write_event(api_, runtime_, replica_, problem, object);
  if (written.ok()) return true;
  runtime_.log.debug("an Event cannot be written",
                     {{"object", object.key.str()}, {"detail", written.error().text()}});
  // Do not retry: the API would refuse it again.
  return written.error().code == ErrorCode::kInvalidField;
}

}  // namespace osm::inline v1::kubernetes
