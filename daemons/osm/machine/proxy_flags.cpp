#include "machine/proxy_flags.hpp"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <filesystem>

#include "base/json.hpp"
#include "command.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

// The commands that keep the proxy certificate current. The units look in /etc/osm only.
std::string renewal_of(const std::string& directory) {
  const std::filesystem::path path(directory);
  std::string text =
      fmt::format("  osm vm renew --dir {} --every 10m  # keeps running\n", directory);
  if (path.parent_path() == "/etc/osm")
    text += fmt::format("  systemctl enable --now osm-renew@{}.timer  # or this, with systemd\n",
                        path.filename().string());
  return text;
}

}  // namespace

void add_proxy_flags(CLI::App& app, ProxyFlags& flags) {
  app.add_option("--owner", flags.owner,
                 "User id that Envoy runs as (default: 1500 for root, else the current user)");
  app.add_option("--xds", flags.xds,
                 "Variant of xDS: delta (only changed resources), or sotw (state of the world:\n"
                 "all clusters or all listeners each time)")
      ->check(CLI::IsMember({"delta", "sotw"}))
      ->capture_default_str();
  app.add_flag("--grpc", flags.grpc,
               "Also write grpc_bootstrap.json for applications whose gRPC library is in the mesh\n"
               "without Envoy; `osm vm renew` then keeps their certificate in workload_*.pem");
}

machine::ProxyOptions proxy_of(const ProxyFlags& flags) {
  return {.directory = absolute(flags.directory),
          .owner = flags.owner,
          .xds = xds_variant_of(flags.xds).value_or(XdsVariant::kDelta),
          .grpc = flags.grpc};
}

Result<json::value> shown(const Result<machine::Bootstrapped>& written) {
  if (!written.ok()) return written.error();
  return json::value{{"directory", written->directory},
                     {"files", json::array(written->files.begin(), written->files.end())},
                     {"uuid", written->uuid},
                     {"common_name", written->common_name},
                     {"served_until", written->served_until},
                     {"not_after", written->not_after}};
}

std::string next_steps(const json::value& written) {
  const std::string directory = text_at(written, "directory");
  std::string names;
  bool grpc = false;
  for (const json::value& name : list_at(written, "files")) {
    grpc = grpc || name == json::value("grpc_bootstrap.json");
    names += (names.empty() ? "" : ", ") + std::string(name.as_string());
  }
  std::string text = fmt::format(
      "Wrote {0}: {1}\nProxy {2}, certificate {3}: Envoy is served with it until {4}, and it can "
      "be "
      "renewed until {5}.\n\n"
      "On the machine, as root:\n"
      "  sed -i '/^# Begin of the names of the mesh/,/^# End of the names of the mesh/d' "
      "/etc/hosts\n"
      "  cat {0}/hosts >> /etc/hosts      # the mesh's names, in place of former ones\n"
      "  {0}/intercept.sh                 # undo with --remove\n"
      "Start Envoy with the command at the top of {0}/bootstrap.yaml, and keep the certificate "
      "current:\n{6}",
      directory, names, text_at(written, "uuid"), text_at(written, "common_name"),
      text_at(written, "served_until"), text_at(written, "not_after"), renewal_of(directory));
  if (grpc)
    text += fmt::format(
        "For gRPC in place of Envoy, without intercept.sh:\n"
        "  osm vm renew --dir {0}           # once before it starts: the workload's certificate\n"
        "and start the application with GRPC_XDS_BOOTSTRAP={0}/grpc_bootstrap.json.\n",
        directory);
  return text;
}

}  // namespace osm::cli
