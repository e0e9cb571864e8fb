#include "agent_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

#include "osm/certificate/request.hpp"
#include "osm/inject/vm_bootstrap.hpp"
#include "osm/mesh_spec.hpp"

namespace vendor {
namespace {

osm::Status write_file(const std::filesystem::path& path, const osm::inject::BootstrapFile& file) {
  const auto failed = [&](const char* what) {
    return osm::Error{osm::ErrorCode::kStorage, std::string(what) + ' ' + path.string()};
  };
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, file.mode);
  if (fd < 0) return failed("cannot write");
  const auto size = static_cast<ssize_t>(file.content.size());
  const bool written = ::write(fd, file.content.data(), file.content.size()) == size;
  const bool given = !file.proxys || ::fchown(fd, osm::inject::kProxyUid, 0) == 0;
  ::close(fd);
  if (!written) return failed("cannot write");
  if (!given) return failed("run as root: cannot give the proxy its");
  return {};
}

}  // namespace

osm::Status write_agent_files(osm::ControlPlane& mesh, const osm::MeshSpec& spec,
                              const osm::certificate::Manager& certificates,
                              const osm::Workload& workload,
                              const std::filesystem::path& directory) {
  OSM_TRY(const auto made, osm::certificate::make_request(mesh.proxy_subject(workload)));
  OSM_TRY(const auto certificate,
          mesh.issue_proxy_certificate(workload, made.request_pem, std::chrono::hours(24)));
  const std::string trust_bundle_pem = certificates.trust_bundle_pem();
  std::vector<osm::Service> services;
  for (const auto& service : spec.list_services()) services.push_back(*service);
  OSM_TRY(const auto files, osm::inject::vm_bootstrap({.workload = workload.name,
                                                       .account = workload.account,
                                                       .controller = mesh.ads_address(),
                                                       .directory = directory.string(),
                                                       .certificate = *certificate,
                                                       .trust_bundle_pem = trust_bundle_pem,
                                                       .services = services}));
  std::filesystem::create_directories(directory);
  const osm::inject::BootstrapFile key{std::string(osm::inject::kProxyKeyFile), 0600, true,
                                       made.key.pem()};
  if (osm::Status done = write_file(directory / key.name, key); !done.ok()) return done;
  for (const auto& file : files)
    if (osm::Status done = write_file(directory / file.name, file); !done.ok()) return done;
  return {};
}

}  // namespace vendor
