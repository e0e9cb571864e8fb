// Input of the CNI plugin, which is root on the node → an answer, and the script that it runs
// in the pod's network namespace: an annotation, which whoever may change pods writes, becomes
// numbers, networks and interfaces in the script and nothing else.
//
//   input: the command ('0' ADD, '1' CHECK, '2' VERSION, '3' STATUS, '4' a line); then '0' and the
//   configuration, or '1' and the value of the annotation.
#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "daemons/osm-cni/plugin.hpp"
#include "fuzz/cni_runs.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/inject/pod_interception.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

constexpr std::array<std::string_view, 4> kCommands{"ADD", "CHECK", "VERSION", "STATUS"};

std::string configuration_of(std::string_view annotation) {
  const json::object annotations{{inject::kInterceptionAnnotation, annotation}};
  return json::serialize(
      json::object{{"cniVersion", "1.0.0"},
                   {"prevResult", {{"ips", json::array{json::object{{"address", "10.0.0.2/24"}}}}}},
                   {"runtimeConfig", {{"io.kubernetes.cri.pod-annotations", annotations}}}});
}

// Rules are text for iptables-restore, in a here-document that the shell expands.
void check_script(const std::string& script) {
  for (std::size_t at = 0; at < script.size();) {
    const std::size_t end = std::min(script.find('\n', at), script.size());
    const std::string_view line = std::string_view(script).substr(at, end - at);
    at = end + 1;
    if (!line.starts_with("-A ")) continue;
    const bool plain = std::ranges::all_of(line, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view(" .,:/!-_").find(c) != std::string_view::npos ||
             std::string_view("\"$()").find(c) != std::string_view::npos;
    });
    require(plain, "a rule has no text of an annotation", line);
  }
}

void run(Choices choices) {
  const std::size_t which = choices.below(kCommands.size() + 1);
  const std::string command =
      which < kCommands.size() ? std::string(kCommands[which]) : choices.line(40);
  const bool annotation = choices.flag();
  const std::string text(choices.rest());
  const std::string configuration = annotation ? configuration_of(text) : text;
  cni_runs().clear();
  const cni::Answer answer = cni::answer({{"CNI_COMMAND", command}, {"CNI_NETNS", "/proc/self/ns"}},
                                         configuration, "/nowhere");
  require(answer.status == 0 || answer.status == 1, "a process ends with 0 or 1");
  boost::system::error_code fault;
  const json::value said = json::parse(answer.text.empty() ? "{}" : answer.text, fault);
  require(!fault && said.is_object(), "an answer is JSON", answer.text);
  require((answer.status == 1) == said.as_object().contains("code"), "an error has a code",
          answer.text);
  require(command == "ADD" || command == "CHECK" || cni_runs().empty(),
          "other commands run nothing");
  require(answer.status == 0 || cni_runs().empty(), "what is refused runs nothing");
  for (const std::string& script : cni_runs()) check_script(script);
}

const bool kAdded = add("cni", [](std::string_view input) { run(Choices(input)); });

}  // namespace
