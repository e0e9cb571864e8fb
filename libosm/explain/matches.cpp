#include <re2/re2.h>

#include <cctype>

#include "base/maps.hpp"
#include "explain/call.hpp"
#include "model/path_forms.hpp"

namespace osm::inline v1::explain {
namespace {

constexpr std::string_view kEverything = ".*";

bool full_match(const std::string& text, const std::string& regex) {
  return RE2::FullMatch(text, RE2(regex, RE2::Quiet));
}

// True if only the very text matches: a path rule then names one path, in whatever form.
bool is_literal(const std::string& regex) {
  constexpr std::string_view kMeta = R"(+*?()[]{}|^$)";
  for (std::size_t i = 0; i < regex.size(); ++i) {
    const bool escaped = regex[i] == '\\';
    if (escaped && (i + 1 == regex.size() ||
                    std::string_view("./-").find(regex[i + 1]) == std::string_view::npos))
      return false;
    if (escaped)
      ++i;
    else if (regex[i] == '.' || kMeta.find(regex[i]) != std::string_view::npos)
      return false;
  }
  return true;
}

bool in_normal_form(const std::string& path) { return !full_match(path, model::kOtherPathForms); }

bool has_method(const RoutePolicy& route, const std::string& method) {
  return route.methods.empty() ||
         std::find(route.methods.begin(), route.methods.end(), method) != route.methods.end();
}

std::string list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

// The host is a header too, whichever way a rule writes it.
std::optional<std::string> header_of(const RequestParts& request, const std::string& name) {
  const CallQuestion& question = request.question;
  if (name == "host") return question.host;
  const std::string* value = find_in(question.headers, name);
  if (value == nullptr) return std::nullopt;
  std::string out = *value;
  if (name == "cookie")
    for (const std::string& more : question.more_cookies)
      out += (request.http2 ? "; " : ",") + more;
  return out;
}

// The elements of a header's list in lower case.
std::vector<std::string> tokens_of(const CallQuestion& question, const char* header) {
  const std::string* value = find_in(question.headers, header);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  for (std::size_t at = 0; at <= value->size();) {
    const std::size_t end = std::min(value->find(',', at), value->size());
    std::string one = value->substr(at, end - at);
    one.erase(0, one.find_first_not_of(" \t"));
    one.erase(one.find_last_not_of(" \t") + 1);
    for (char& c : one)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!one.empty()) out.push_back(std::move(one));
    at = end + 1;
  }
  return out;
}

std::string decoded_unreserved(const std::string& path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto hex = [&](std::size_t at) {
      return at < path.size() && std::isxdigit(static_cast<unsigned char>(path[at])) != 0;
    };
    if (path[i] == '%' && hex(i + 1) && hex(i + 2)) {
      const int code = std::stoi(path.substr(i + 1, 2), nullptr, 16);
      if (std::isalnum(code) != 0 ||
          std::string_view("-._~").find(static_cast<char>(code)) != std::string_view::npos) {
        out += static_cast<char>(code);
        i += 2;
        continue;
      }
    }
    out += path[i] == '\\' ? '/' : path[i];
  }
  return out;
}

}  // namespace

bool matches_path(const std::string& regex, const std::string& path) {
  return regex == kEverything || full_match(path, regex);
}

std::optional<std::string> normal_path(const std::string& path) {
  if (RE2::PartialMatch(path, "(?i)%2f|%5c")) return std::nullopt;
  const std::string decoded = decoded_unreserved(path);
  std::vector<std::string> kept;
  bool ends_in_slash = false;
  for (std::size_t at = 0; at < decoded.size();) {
    const std::size_t next = std::min(decoded.find('/', at + 1), decoded.size());
    const std::string segment = decoded.substr(at + 1, next - at - 1);
    ends_in_slash = segment.empty() || segment == "." || segment == "..";
    if (segment == ".." && !kept.empty())
      kept.pop_back();
    else if (!ends_in_slash)
      kept.push_back(segment);
    at = next;
  }
  std::string out;
  for (const std::string& segment : kept) out += '/' + segment;
  return ends_in_slash || out.empty() ? out + '/' : out;
}

std::vector<std::string> lacking(const RoutePolicy& route, const RequestParts& request) {
  std::vector<std::string> out;
  if (!matches_path(route.path_regex, request.path))
    out.push_back("the path " + request.path + " does not match " + route.path_regex);
  else if (request.checks_form && route.path_regex != kEverything &&
           !is_literal(route.path_regex) && !in_normal_form(request.path))
    out.push_back("the path " + request.path +
                  " is not in normal form, and path rules accept no other (annotation "
                  "openservicemesh.io/http-paths of the Service)");
  if (!has_method(route, request.question.method))
    out.push_back("the method " + request.question.method + " is not " + list(route.methods));
  for (const auto& [name, regex] : route.headers) {
    const auto value = header_of(request, name);
    if (!value)
      out.push_back("the header " + name + " is absent");
    else if (regex != kEverything && !full_match(*value, regex))
      out.push_back("the header " + name + ": " + *value + " does not match " + regex);
  }
  return out;
}

std::optional<std::string> refused_upgrade(const CallQuestion& question) {
  const auto connection = tokens_of(question, "connection");
  if (std::find(connection.begin(), connection.end(), "upgrade") == connection.end())
    return std::nullopt;
  std::vector<std::string> asked = tokens_of(question, "upgrade");
  if (asked == std::vector<std::string>{"h2c"}) return std::nullopt;  // beside others it counts
  std::erase_if(asked, [](const std::string& one) { return one.starts_with("tls/"); });
  if (asked.empty() || asked == std::vector<std::string>{"websocket"}) return std::nullopt;
  return "the request asks for an upgrade to " + list(asked) +
         ", and sidecars allow one to websocket only: send it without Upgrade";
}

bool routes_to(const RoutePolicy& route, const RequestParts& request) {
  return lacking(route, {request.question, request.path, false, request.http2}).empty();
}

}  // namespace osm::inline v1::explain
