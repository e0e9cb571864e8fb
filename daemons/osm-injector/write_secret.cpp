#include "write_secret.hpp"

namespace osm::injector {

Status write_secret(kubernetes::Cluster& cluster, const Options& options,
                    const inject::BootstrapSecret& secret) {
  kubernetes::Secret object{.ns = secret.ns,
                            .name = secret.name,
                            .labels = secret.labels,
                            .annotations = secret.annotations};
  for (const inject::BootstrapFile& file : secret.files)
    object.data[file.name] = SecretBytes(file.content);
  Status created = kubernetes::create_secret(cluster, object);
  if (created.ok() || created.error().code == ErrorCode::kAlreadyExists) return {};
  if (created.error().code != ErrorCode::kPermissionDenied) return created;
  return Error{ErrorCode::kPermissionDenied, created.error().message + "; allow it by `" +
                                                 grant_command(options, secret.ns) + '`'};
}

}  // namespace osm::injector
