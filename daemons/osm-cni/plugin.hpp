// The commands of the CNI specification. https://www.cni.dev/docs/spec/
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace osm::cni {

struct Answer {
  std::string text;  // JSON for standard output; may be empty
  int status = 0;    // of the process
};

// Answers one call of a container runtime. `environment`: variables that begin with CNI_;
// `configuration`: standard input; `root`: files of the image osm-init. A pod without the
// injector's annotation is left as it is.
// Failure: an error of the specification, with the remedy in `details`.
Answer answer(const std::map<std::string, std::string>& environment, std::string_view configuration,
              const std::filesystem::path& root);

}  // namespace osm::cni
