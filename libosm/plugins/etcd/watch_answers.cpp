#include "etcd/watch_answers.hpp"

#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "etcd/gateway.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxReason = 512;

template <class Map>
std::int64_t number_in(const Map& map, std::string_view name) {
  return number_of<std::int64_t>(text_at(map, name)).value_or(0);
}

// A stream that fails ends with {"error": {"message": ...}}, or with a text.
std::string failure_in(const json::object& answer) {
  const json::value* const error = member(answer, "error");
  if (!error) return {};
  std::string said = text_at(*error, "message");
  if (said.empty() && error->is_string()) said = text_at(answer, "error");
  return said.empty() ? "the watch failed" : said.substr(0, kMaxReason);
}

Result<WatchAnswer> read_line(std::string_view line) {
  OSM_TRY(const json::object answer, parse_json_object(line, "the answer to a watch"));
  WatchAnswer out;
  out.reason = failure_in(answer);
  if (!out.reason.empty()) {
    out.canceled = true;
    return out;
  }
  const json::object& result = map_at(answer, "result");
  if (map_at(result, "header").empty()) return not_etcd();
  out.revision = number_in(map_at(result, "header"), "revision");  // of `canceled` there is none
  out.created = bool_at(result, "created").value_or(false);
  out.canceled = bool_at(result, "canceled").value_or(false);
  out.fragment = bool_at(result, "fragment").value_or(false);
  out.compact_revision = number_in(result, "compact_revision");
  out.reason = text_at(result, "cancel_reason").substr(0, kMaxReason);
  for (const json::value& event : list_at(result, "events")) {
    const json::value* const kv = member(event, "kv");
    OSM_TRY(Pair pair, read_pair(kv ? *kv : json::value()));
    out.events.push_back({std::move(pair), text_at(event, "type") == "DELETE"});
  }
  return out;
}

}  // namespace

std::int64_t revision_at(const json::value& map, std::string_view name) {
  return number_in(map, name);
}
std::int64_t revision_at(const json::object& map, std::string_view name) {
  return number_in(map, name);
}

Result<Pair> read_pair(const json::value& pair) {
  auto key = from_base64(text_at(pair, "key"));
  auto value = from_base64(text_at(pair, "value"));
  const std::int64_t revision = number_in(pair, "mod_revision");
  if (!key || key->empty() || !value || revision <= 0) return not_etcd();
  return Pair{*std::move(key), *std::move(value), revision, number_in(pair, "create_revision")};
}

Result<std::vector<WatchAnswer>> WatchReader::read(std::string_view data) {
  std::vector<WatchAnswer> answers;
  while (!data.empty()) {
    const auto end = data.find('\n');
    const std::string_view part = data.substr(0, end);
    if (line_.size() + part.size() > kMaxLine)
      return Error{ErrorCode::kTooLarge,
                   "one answer to a watch has more than " + std::to_string(kMaxLine) + " bytes"};
    line_.append(part);
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + 1);
    const std::string line = std::exchange(line_, {});
    if (line.empty()) continue;
    OSM_TRY(WatchAnswer answer, read_line(line));
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace osm::inline v1::etcd
