// `osm status`: asks once, or until every proxy has applied an object.
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/json.hpp"
#include "mesh/commands.hpp"
#include "mesh/object_commands.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{200};
constexpr std::string_view kEraseLine = "\r\x1b[K";

using spec::Kind;

std::string count_at(const json::value& object, std::string_view name) {
  return std::to_string(number_at(object, name));
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

ExitCode exit_code_of_phase(const std::string& phase) {
  if (phase == "Applied") return kDone;
  return phase == "Pending" ? kNotYet : kFailed;
}

// The kinds and their short forms, for the help.
std::string status_kinds() {
  std::string text;
  for (const Kind& kind : spec::mesh_kinds()) {
    if (kind.alias.empty()) continue;
    text += text.empty() ? "" : ", ";
    text.append(kind.name.kind).append(" (").append(kind.alias).append(")");
  }
  return text;
}

// KIND in any case, plural or short; NAME with or without its namespace. Failure: kInvalidArgument.
Result<ObjectKey> parse_status_object(const std::string& kind, const std::string& ns,
                                      const std::string& name) {
  const Kind* known = parse_kind(kind);
  if (!known || known->alias.empty())
    return Error{ErrorCode::kInvalidArgument,
                 "'" + kind + "' is no kind of the mesh; there are: " + status_kinds()};
  return parse_name(*known, spec::counts_in_mesh(known->scope), ns, name);
}

}  // namespace

int run_status(const Flags& flags, const ObjectKey& object, bool wait, milliseconds timeout,
               bool must_exist, const std::function<Status()>& confirm) {
  const AdminClient client = flags.client();
  const auto deadline = steady_clock::now() + timeout;
  std::optional<Result<json::value>> answer;
  std::string phase;
  {
    ProgressLine progress;
    for (;;) {
      answer = client.get("/v1/status", {{"group", object.group},
                                         {"kind", object.kind},
                                         {"namespace", object.ns},
                                         {"name", object.name}});
      phase = answer->ok() ? text_at(**answer, "phase") : "";
      const bool over =
          answer->ok() ? phase == "Applied" || phase == "Rejected" : !may_pass(answer->error());
      const auto left = deadline - steady_clock::now();
      if (over || !wait || left <= steady_clock::duration::zero()) break;
      progress.show(answer->ok() ? object.str() + ": " + phase + ", applied by " +
                                       count_at(**answer, "applied") + " of " +
                                       count_at(**answer, "concerned") + " proxies"
                                 : answer->error().message);
      std::this_thread::sleep_for(std::min<steady_clock::duration>(kPoll, left));
    }
  }
  if (!answer->ok()) return fail(flags, answer->error());
  const int code = exit_code_of_phase(phase);
  if (must_exist && code == kDone && bool_at(**answer, "removed").value_or(false))
    return fail(flags,
                {ErrorCode::kNotFound,
                 object.str() +
                     " is not in the mesh: it was removed meanwhile, or --mesh-dir is not that of "
                     "the controller of --state-dir. Repeat the command"});
  if (confirm && code == kDone)
    if (const Status confirmed = confirm(); !confirmed.ok()) return fail(flags, confirmed.error());
  std::cout << (flags.for_programs() ? flags.written(**answer) : show_status(**answer));
  if (!std::cout.flush()) return kFailed;
  if (wait && code == kNotYet)
    std::cerr << "osm: not applied everywhere within " << timeout.count() << " ms\n";
  return code;
}

void add_status(CLI::App& root, Flags& flags) {
  struct Options {
    std::string kind, name, ns;
    milliseconds timeout{30'000};
    bool wait = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app =
      command(root, flags, "status", "Progress of an object: the proxies that have applied it",
              "osm status traffictarget shop/web-api --wait\n"
              "  osm status vm web-1 -n shop -o json");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 applied; 1 rejected or refused; 5 not applied (in time)");
  app->remove_option(app->get_option("--timeout"));
  app->add_option("KIND", options->kind, status_kinds())->required();
  app->add_option("NAME", options->name, "[NAMESPACE/]NAME of the object")->required();
  app->add_option("-n,--namespace", options->ns, "Its namespace, if NAME has none");
  app->add_flag("--wait", options->wait, "Wait until it is applied, or --timeout has passed");
  add_time(*app, "--timeout", options->timeout, "Longest wait");
  app->callback([&flags, options] {
    const auto object = parse_status_object(options->kind, options->ns, options->name);
    flags.exit_code = object.ok() ? run_status(flags, *object, options->wait, options->timeout)
                                  : fail(flags, object.error());
  });
}

}  // namespace osm::cli
