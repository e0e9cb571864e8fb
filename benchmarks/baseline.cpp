#include "baseline.hpp"

#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <boost/json.hpp>

namespace osm::bench {
namespace {

constexpr int kProxiesToJudgeMemory = 1000;

// To one proxy over delta xDS, however many Services the mesh has.
constexpr std::uint64_t kMostBytesOfChangedService = 4096;

bool is_changed_service(const std::string& count) {
  return count.starts_with("one_proxy_of_") && count.ends_with("_service.bytes");
}

std::uint64_t allowed(const std::string& count, std::uint64_t baseline) {
  return count.ends_with(".bytes") ? baseline + baseline / 50 + 64 : baseline;
}

Error malformed(const std::string& path, const std::string& why) {
  return {ErrorCode::kInvalidSyntax, path + ": " + why + "; rewrite it with --update-baseline"};
}

}  // namespace

Result<Baseline> load_baseline(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return Error{ErrorCode::kNotFound, path + ": cannot be read; write it with --update-baseline"};
  std::stringstream text;
  text << file.rdbuf();
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse(text.str(), error);
  if (error) return malformed(path, error.message());
  Baseline baseline;
  try {
    const boost::json::object& top = value.as_object();
    baseline.bytes_per_proxy_beyond_bare =
        top.at("bytes_per_proxy_beyond_bare").to_number<double>();
    for (const auto& [mesh, counts] : top.at("counts").as_object())
      for (const auto& [name, number] : counts.as_object())
        baseline.counts[mesh][name] = number.to_number<std::uint64_t>();
  } catch (const std::exception& wrong) {
    return malformed(path, wrong.what());
  }
  return baseline;
}

Status save_baseline(const std::string& path, const Baseline& baseline) {
  std::ofstream file(path);
  file << "{\n  \"bytes_per_proxy_beyond_bare\": " << baseline.bytes_per_proxy_beyond_bare
       << ",\n  \"counts\": {";
  const char* between_meshes = "\n";
  for (const auto& [mesh, counts] : baseline.counts) {
    file << between_meshes << fmt::format("    \"{}\": {{", mesh);
    between_meshes = ",\n";
    const char* between = "\n";
    for (const auto& [name, number] : counts) {
      file << between << fmt::format("      \"{}\": {}", name, number);
      between = ",\n";
    }
    file << "\n    }";
  }
  file << "\n  }\n}\n";
  file.close();
  if (!file) return Error{ErrorCode::kStorage, path + ": cannot be written"};
  return {};
}

std::vector<std::string> regressions(const std::string& name, const Counts& counts,
                                     const Baseline& baseline) {
  std::vector<std::string> found;
  const auto known = baseline.counts.find(name);
  if (known == baseline.counts.end())
    return {name + ": not in the baseline; add it with --update-baseline"};
  for (const auto& [count, expected] : known->second)
    if (!counts.contains(count))
      found.push_back(
          fmt::format("{}: {} was not measured; the baseline has {}", name, count, expected));
  for (const auto& [count, number] : counts) {
    const auto at = known->second.find(count);
    if (at == known->second.end()) {
      found.push_back(fmt::format("{}: {} is not in the baseline", name, count));
    } else if (number > allowed(count, at->second)) {
      found.push_back(fmt::format("{}: {} rose from {} to {}", name, count, at->second, number));
    } else if (is_changed_service(count) && number > kMostBytesOfChangedService) {
      found.push_back(fmt::format("{}: {} is {}, above {}, whatever the baseline says", name, count,
                                  number, kMostBytesOfChangedService));
    } else if (number < at->second / 2 + at->second % 2) {
      found.push_back(fmt::format(
          "{}: {} fell from {} to {}: nothing was measured, or the baseline is stale; rewrite it "
          "with --update-baseline",
          name, count, at->second, number));
    }
  }
  return found;
}

std::vector<std::string> regressions(const Measurement& measured, const Baseline& baseline) {
  const std::string mesh = measured.size.name();
  std::vector<std::string> found = regressions(mesh, measured.counts, baseline);
  if (!baseline.counts.contains(mesh)) return found;
  const double beyond = measured.bytes_per_proxy_beyond_bare();
  if (measured.size.proxies >= kProxiesToJudgeMemory &&
      beyond > baseline.bytes_per_proxy_beyond_bare)
    found.push_back(
        fmt::format("{}: a settled proxy costs {:.0f} bytes beyond the bare server, "
                    "more than {:.0f}",
                    mesh, beyond, baseline.bytes_per_proxy_beyond_bare));
  return found;
}

}  // namespace osm::bench
