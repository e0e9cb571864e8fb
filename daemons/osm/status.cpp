#include "status.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <charconv>
#include <csignal>
#include <iostream>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "osm/spec/kinds.hpp"
#include "show.hpp"
#include "table.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

enum ExitCode { kApplied = 0, kFailed = 1, kNotApplied = 2 };

constexpr milliseconds kPoll{200};
constexpr std::string_view kEraseLine = "\r\x1b[K";

using spec::Kind;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

const Kind* find_kind(const std::string& text) {
  const std::string wanted = lower(text);
  for (const Kind& kind : spec::mesh_kinds()) {
    const std::string name = lower(kind.name.kind);
    if (kind.alias.empty()) continue;
    if (wanted == name || wanted == name + 's' || wanted == kind.alias) return &kind;
  }
  return nullptr;
}

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

std::string member(const json::value& object, std::string_view name) {
  const json::object* fields = object.if_object();
  const json::value* value = fields ? fields->if_contains(name) : nullptr;
  if (!value) return {};
  return value->is_string() ? std::string(value->as_string()) : json::serialize(*value);
}

// True for errors that may pass by themselves.
bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotReady ||
         error.code == ErrorCode::kDeadlineExceeded;
}

// One line that tells how it goes, on a terminal; it leaves nothing behind.
class ProgressLine {
 public:
  ProgressLine() {
    if (shown_) previous_ = std::signal(SIGINT, erase_and_die);
  }
  ~ProgressLine() {
    if (!shown_) return;
    std::cerr << kEraseLine << std::flush;
    std::signal(SIGINT, previous_);
  }
  ProgressLine(const ProgressLine&) = delete;

  void show(const std::string& text) {
    if (shown_) std::cerr << kEraseLine << printable(text) << std::flush;
  }

 private:
  static void erase_and_die(int) {
    static_cast<void>(!::write(STDERR_FILENO, kEraseLine.data(), kEraseLine.size()));
    std::signal(SIGINT, SIG_DFL);
    static_cast<void>(std::raise(SIGINT));
  }

  const bool shown_ = ::isatty(STDERR_FILENO) == 1;
  void (*previous_)(int) = nullptr;
};

int exit_code_of(const std::string& phase) {
  if (phase == "Applied") return kApplied;
  return phase == "Pending" ? kNotApplied : kFailed;
}

}  // namespace

std::string status_kinds() {
  std::string text;
  for (const Kind& kind : spec::mesh_kinds()) {
    if (kind.alias.empty()) continue;
    text += text.empty() ? "" : ", ";
    text.append(kind.name.kind).append(" (").append(kind.alias).append(")");
  }
  return text;
}

Result<ObjectKey> parse_status_object(const std::string& kind, const std::string& ns,
                                      const std::string& name) {
  const Kind* known = find_kind(kind);
  if (!known) return invalid("'" + kind + "' is no kind of the mesh; there are: " + status_kinds());
  const auto slash = name.find('/');
  ObjectKey object{known->name, ns, name};
  if (slash != std::string::npos) {
    object.ns = name.substr(0, slash);
    object.name = name.substr(slash + 1);
    if (!ns.empty() && ns != object.ns)
      return invalid("--namespace says " + ns + ", and '" + name + "' another");
  }
  if (object.name.empty() || object.name.find('/') != std::string::npos)
    return invalid("'" + name + "' is no name; write NAMESPACE/NAME");
  if (known->scope == spec::Scope::kCluster) object.ns.clear();
  if (known->scope == spec::Scope::kMesh && object.ns.empty())
    return invalid("in which namespace is " + object.kind + " '" + name +
                   "'? Write NAMESPACE/NAME, or use -n");
  return object;
}

Result<milliseconds> parse_duration(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"", 1000}}};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto at =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& u) { return u.first == unit; });
  if (error != std::errc{} || at == kUnits.end() || !(value >= 0 && value <= 86400))
    return invalid("'" + text + "' is no time; write 500ms, 30s or 2m");
  return milliseconds(static_cast<long>(value * at->second));
}

int run_status(const AdminClient& client, const ObjectKey& object, const StatusOptions& options) {
  const auto deadline = steady_clock::now() + options.timeout;
  std::optional<Result<json::value>> answer;
  std::string phase;
  {
    ProgressLine progress;
    for (;;) {
      answer = client.get("/v1/status", {{"group", object.group},
                                         {"kind", object.kind},
                                         {"namespace", object.ns},
                                         {"name", object.name}});
      phase = answer->ok() ? member(**answer, "phase") : "";
      const bool over =
          answer->ok() ? phase == "Applied" || phase == "Rejected" : !may_pass(answer->error());
      const auto left = deadline - steady_clock::now();
      if (over || !options.wait || left <= steady_clock::duration::zero()) break;
      progress.show(answer->ok() ? object.str() + ": " + phase + ", applied by " +
                                       member(**answer, "applied") + " of " +
                                       member(**answer, "concerned") + " proxies"
                                 : answer->error().message);
      std::this_thread::sleep_for(std::min<steady_clock::duration>(kPoll, left));
    }
  }
  if (!answer->ok()) {
    std::cerr << "osm: " << printable(answer->error().message) << '\n';
    return kFailed;
  }
  std::cout << (options.as_json ? json::serialize(**answer) + '\n' : show_status(**answer));
  if (!std::cout.flush()) return kFailed;
  const int code = exit_code_of(phase);
  if (options.wait && code == kNotApplied)
    std::cerr << "osm: not applied everywhere within " << options.timeout.count() << " ms\n";
  return code;
}

}  // namespace osm::cli
