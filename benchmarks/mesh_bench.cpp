// Resources, responses, bytes and memory of a change are not more than the baseline.
//
// mesh_bench: what libosm costs with N real proxies' worth of mutual TLS streams. See README.md.
#include <cstdio>
#include <iostream>
#include <limits>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "baseline.hpp"
#include "measured_server.hpp"
#include "measurement.hpp"

namespace osm::bench {
namespace {

struct Flags {
  std::vector<std::string> meshes{"smi-10x10",          "smi-100x100",        "smi-200x100",
                                  "smi-1000x200",       "permissive-10x10",   "permissive-100x100",
                                  "permissive-200x100", "permissive-1000x200"};
  std::string mode;
  std::string baseline;
  bool gate = false, update = false;
  double most_resident_mb = std::numeric_limits<double>::infinity();
  int patience_seconds = 120;
  std::string ca, recordings;
  int proxies = 0, services = 0;
};

int fail(const Error& error) {
  std::cerr << error.text() << '\n';
  return 1;
}

// "smi-100x10": see MeshSize::name().
Result<MeshSize> parse_size(const std::string& text) {
  MeshSize size;
  size.permissive = text.starts_with("permissive-");
  const std::string numbers = text.substr(text.find('-') + 1);
  if (std::sscanf(numbers.c_str(), "%dx%d", &size.proxies, &size.services) != 2 ||
      size.services < 3 || size.services > size.proxies || size.name() != text)
    return Error{ErrorCode::kInvalidArgument,
                 text +
                     ": not a mesh; write smi-PROXIESxSERVICES or permissive-PROXIESxSERVICES with "
                     "3 <= SERVICES <= PROXIES"};
  return size;
}

Result<std::vector<MeshSize>> parse_sizes(const std::vector<std::string>& texts) {
  std::vector<MeshSize> sizes;
  for (const std::string& text : texts) {
    OSM_TRY(sizes.emplace_back(), parse_size(text));
  }
  return sizes;
}

void print(const Measurement& m) {
  const auto count = [&](const std::string& name) { return m.counts.at(name); };
  fmt::print("{}: {} proxies, {} services, {} classes\n", m.size.name(), m.size.proxies,
             m.size.services, count("classes"));
  fmt::print(
      "  first configuration   {:8.2f} s wall ({:.2f} x bare)   {:8.2f} s CPU ({:.2f} x bare)\n",
      m.osm.wall_seconds, m.osm.wall_seconds / m.bare.wall_seconds, m.osm.cpu_seconds,
      m.osm.cpu_seconds / m.bare.cpu_seconds);
  fmt::print("                        {:8} responses   {:10} bytes ({:.2f} x bare)   {} encoded\n",
             count("start.responses"), m.osm.bytes,
             static_cast<double>(m.osm.bytes) / static_cast<double>(m.bare.bytes),
             count("start.resources_encoded"));
  fmt::print("  memory per proxy      {:8.1f} kB, bare {:.1f} kB, beyond bare {:.1f} kB\n",
             m.osm.resident_bytes_per_proxy / 1000, m.bare.resident_bytes_per_proxy / 1000,
             m.bytes_per_proxy_beyond_bare() / 1000);
  fmt::print("  memory of the server  {:8.1f} MB\n", m.osm.resident_bytes / 1e6);
  for (const auto& [change, latency] : m.latencies) {
    const std::string name = change_text(change);
    fmt::print(
        "  {:20}  {:8} responses to {} proxies   {:10} bytes   {} encoded   "
        "last after {:.1f} ms   {:.1f} ms CPU\n",
        "one " + name + " change", count(name + ".responses"), count(name + ".proxies"),
        count(name + ".bytes"), count(name + ".resources_encoded"), latency.last_proxy_ms,
        latency.cpu_ms);
  }
  if (m.counts.contains("added_service.delta.bytes"))
    fmt::print(
        "  one added Service     {:8} bytes to all proxies in delta, {} in state of the world\n",
        count("added_service.delta.bytes"), count("added_service.sotw.bytes"));
  std::fflush(stdout);
}

int run(const Flags& flags) {
  auto meshes = parse_sizes(flags.meshes);
  if (!meshes) return fail(meshes.error());
  Baseline baseline;
  if (flags.gate || flags.update) {
    auto loaded = load_baseline(flags.baseline);
    if (!loaded && !flags.update) return fail(loaded.error());
    if (loaded) baseline = std::move(*loaded);
  }
  std::vector<std::string> worse;
  for (const MeshSize& size : *meshes) {
    auto measured = measure(size, std::chrono::seconds(flags.patience_seconds));
    if (!measured) return fail(measured.error().with_context(size.name()));
    print(*measured);
    if (flags.update) baseline.counts[size.name()] = measured->counts;
    if (flags.gate)
      for (std::string& line : regressions(*measured, baseline)) worse.push_back(std::move(line));
    if (measured->osm.resident_bytes > flags.most_resident_mb * 1e6)
      worse.push_back(fmt::format("{}: {:.1f} MB are more than the {} that the chart requests",
                                  size.name(), measured->osm.resident_bytes / 1e6,
                                  flags.most_resident_mb));
  }
  if (flags.update)
    if (Status saved = save_baseline(flags.baseline, baseline); !saved) return fail(saved.error());
  for (const std::string& line : worse) std::cerr << "WORSE " << line << '\n';
  return worse.empty() ? 0 : 1;
}

int serve_one(Result<std::unique_ptr<MeasuredServer>> server) {
  if (!server) return fail(server.error());
  serve(**server);
  return 0;
}

int main_with_flags(int argc, char** argv) {
  Flags flags;
  CLI::App app("Measures libosm with simulated proxies over mutual TLS gRPC");
  app.require_subcommand(1);
  auto* runs = app.add_subcommand("run", "Measure, and compare with the baseline");
  runs->add_option("--meshes", flags.meshes, "smi-PROXIESxSERVICES or permissive-PROXIESxSERVICES")
      ->delimiter(',');
  runs->add_option("--patience", flags.patience_seconds, "Seconds to wait for each step");
  runs->add_option("--most-resident", flags.most_resident_mb,
                   "Fail when the server with all its proxies has more MB of memory");
  auto* file = runs->add_option("--baseline", flags.baseline, "baseline.json");
  runs->add_flag("--gate", flags.gate, "Fail when a count is worse than the baseline")->needs(file);
  runs->add_flag("--update-baseline", flags.update, "Write what was measured")->needs(file);

  auto* osm = app.add_subcommand("serve", "The server under measurement (run starts it)");
  osm->add_option("--ca", flags.ca)->required();
  osm->add_option("--proxies", flags.proxies)->required();
  osm->add_option("--services", flags.services)->required();
  osm->add_option("--mode", flags.mode)->required();
  auto* bare = app.add_subcommand("serve-bare", "The bare server (run starts it)");
  bare->add_option("--ca", flags.ca)->required();
  bare->add_option("--recordings", flags.recordings)->required();
  CLI11_PARSE(app, argc, argv);

  if (*runs) return run(flags);
  if (*bare) return serve_one(start_bare_server(flags.ca, flags.recordings));
  return serve_one(start_osm_server({.permissive = flags.mode == "permissive",
                                     .proxies = flags.proxies,
                                     .services = flags.services},
                                    flags.ca));
}

}  // namespace
}  // namespace osm::bench

int main(int argc, char** argv) { return osm::bench::main_with_flags(argc, argv); }
