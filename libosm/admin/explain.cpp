#include "admin/handlers.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "admin/admin_json.hpp"
#include "base/numbers.hpp"
#include "osm/control_plane.hpp"
#include "osm/mesh_cataloger.hpp"
#include "osm/object_store.hpp"

namespace osm::inline v1::admin {
namespace {

void read_optional(const net::Request& request, const char* name, std::string& out) {
  const auto at = request.query.find(name);
  if (at != request.query.end() && !at->second.empty()) out = at->second;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Status read_headers(const std::string& lines, CallQuestion& question) {
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string line = lines.substr(at, end - at);
    const auto colon = line.find(':');
    if (colon == 0 || colon == std::string::npos)
      return Error{ErrorCode::kInvalidArgument,
                   "the header '" + line + "' is not written as NAME: VALUE"};
    const auto value = line.find_first_not_of(' ', colon + 1);
    const std::string text = value == std::string::npos ? "" : line.substr(value);
    auto [at_name, added] = question.headers.try_emplace(lower_case(line.substr(0, colon)), text);
    if (!added && at_name->first == "cookie")
      question.more_cookies.push_back(text);
    else if (!added)  // Envoy reads a header that is sent twice as one with both values
      at_name->second += ',' + text;
    at = end + 1;
  }
  return {};
}

Result<CallQuestion> read_question(const net::Request& request) {
  CallQuestion question;
  OSM_TRY(question.source, request.required("source"));
  OSM_TRY(question.destination, request.required("destination"));
  std::string port;
  read_optional(request, "port", port);
  if (!port.empty()) {
    const auto number = port_of(port);
    if (!number)
      return Error{ErrorCode::kInvalidArgument,
                   "the port '" + port + "' is no number from 1 to 65535"};
    question.port = *number;
  }
  read_optional(request, "method", question.method);
  read_optional(request, "path", question.path);
  read_optional(request, "host", question.host);
  read_optional(request, "certificate", question.certificate);
  std::string headers;
  read_optional(request, "headers", headers);
  OSM_TRY(read_headers(headers, question));
  return question;
}

}  // namespace

Result<net::Response> explain_call(const net::AdminApiOptions& options,
                                   const net::Request& request) {
  OSM_TRY(const CallQuestion question, read_question(request));
  OSM_TRY(const Explanation explanation, options.control_plane.catalog().explain(question));
  const auto source_of = [&](const ObjectKey& key) {
    const auto object = options.store ? options.store->get(key) : nullptr;
    return object ? object->source : ObjectSource{};
  };
  return answer(to_json(explanation, source_of));
}

}  // namespace osm::inline v1::admin
