// `osm vm drain`: clients send a machine no new requests, or send them again.
#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "machine/commands.hpp"
#include "osm/ids.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPollDrained{200};

struct DrainCommand {
  WorkloadName machine;
  bool undo = false;
  milliseconds timeout{60'000};
};

milliseconds left_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::floor<milliseconds>(deadline - steady_clock::now());
  return std::max(milliseconds(0), left);
}

// Waits until every controller that answers has read the record. Failure: kDeadlineExceeded; the
// controllers'.
Status await_controllers(const AdminClient& client, const DrainCommand& options,
                         steady_clock::time_point deadline) {
  for (;;) {
    const auto answer = client.get(
        "/v1/vm/drained", {{"name", options.machine.name}, {"namespace", options.machine.ns}});
    if (!answer.ok() && !may_pass(answer.error())) return answer.error();
    if (answer.ok()) {
      const auto drained = number_at(*answer, "drained");
      if (drained == (options.undo ? 0 : number_at(*answer, "controllers"))) return {};
    }
    if (left_until(deadline) == milliseconds(0)) {
      if (!answer.ok()) return answer.error();
      return Error{ErrorCode::kDeadlineExceeded,
                   options.machine.str() +
                       (options.undo ? " is still drained at " : " is drained at ") +
                       std::to_string(number_at(*answer, "drained")) + " of " +
                       std::to_string(number_at(*answer, "controllers")) +
                       " controllers: the others have not read the record yet; repeat the command"};
    }
    std::this_thread::sleep_for(std::min(kPollDrained, left_until(deadline)));
  }
}

int drain_machine(const Flags& flags, const DrainCommand& options) {
  const auto deadline = steady_clock::now() + options.timeout;
  const AdminClient client = flags.client();
  const auto recorded = client.post("/v1/vm/drain", {},
                                    json::object{{"name", options.machine.name},
                                                 {"namespace", options.machine.ns},
                                                 {"undo", options.undo}});
  if (!recorded.ok()) return fail(flags, recorded.error());
  if (text_at(*recorded, "uuid").empty()) {  // it is not in the mesh, so nobody sends it anything
    std::cout << (flags.for_programs() ? flags.written(*recorded)
                                       : options.machine.str() + " is not drained any more.\n");
    return std::cout.flush() ? kDone : kFailed;
  }
  if (const Status known = await_controllers(client, options, deadline); !known.ok())
    return fail(flags, known.error());
  const ObjectKey object{kinds::kVirtualMachine, options.machine.ns, options.machine.name};
  const int code = run_status(flags, object, true, left_until(deadline), !options.undo);
  if (code != kDone || flags.for_programs()) return code;
  std::cout << options.machine.str()
            << (options.undo ? " is taken back: its clients send requests again.\n"
                             : " is drained: its clients send no new requests. Requests under way "
                               "finish.\n");
  return std::cout.flush() ? kDone : kFailed;
}

}  // namespace

void add_vm_drain(CLI::App& vm, Flags& flags) {
  auto options = std::make_shared<DrainCommand>();
  CLI::App* app =
      command(vm, flags, "drain",
              "Let clients send a machine no new requests, while those under way finish",
              "osm vm drain web-1 -n shop\n"
              "  osm vm drain web-1 -n shop --undo");
  app->footer(app->get_footer() +
              "\n\nExit codes: 0 acknowledged by every connected proxy; 1 failed; 5 not in time "
              "(it\ncontinues)");
  app->remove_option(app->get_option("--timeout"));
  app->add_option("NAME", options->machine.name, "Name of the VirtualMachine object")->required();
  app->add_option("-n,--namespace", options->machine.ns, "Its namespace")->required();
  app->add_flag("--undo", options->undo, "Take the machine back");
  add_time(*app, "--timeout", options->timeout, "Longest wait for the proxies");
  app->callback([&flags, options] { flags.exit_code = drain_machine(flags, *options); });
}

}  // namespace osm::cli
