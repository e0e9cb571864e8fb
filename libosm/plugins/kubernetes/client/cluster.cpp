#include <chrono>
#include <string_view>
#include <utility>

#include "kubernetes/client/access.hpp"
#include "kubernetes/client/api_client.hpp"
#include "kubernetes/client/credentials.hpp"
#include "kubernetes/client/minor_version.hpp"
#include "osm/kubernetes/cluster.hpp"
#include "osm/net/http_client.hpp"

namespace osm::inline v1::kubernetes {
namespace {

// A longer time-out delays the detection of a server that is back after its network dropped
// packets.
constexpr auto kConnectTimeout = std::chrono::seconds(5);

class HttpCluster final : public Cluster {
 public:
  HttpCluster(const ClusterOptions& options, const Access& access)
      : server_(access.server),
        credentials_(
            std::make_shared<Credentials>(access, options.environment, options.runtime.clock)) {
    net::HttpClientOptions http;
    http.address = access.address;
    http.tls = [credentials = credentials_] { return credentials->tls(); };
    http.blocking = &options.runtime.blocking;
    http.connect_timeout = kConnectTimeout;
    http_ = net::HttpClient::create(std::move(http), options.io);
    api_ = make_api_client({access.base_path, credentials_, *http_, options.runtime.blocking,
                            options.runtime.metrics});
  }

  std::string server() const override { return server_; }
  Api& api() override { return *api_; }

 private:
  const std::string server_;
  const std::shared_ptr<Credentials> credentials_;
  std::unique_ptr<net::HttpClient> http_;
  std::unique_ptr<Api> api_;
};

}  // namespace

Result<std::unique_ptr<Cluster>> connect(const ClusterOptions& options) {
  OSM_TRY(const Access access,
          options.kubeconfig.empty()
              ? read_service_account(options.environment, options.service_account_dir)
              : read_kubeconfig(options.kubeconfig, options.context,
                                options.foreign ? Author::kOther : Author::kOperator));
  // Check readable inputs now rather than at the first request.
  if (const auto tls = Credentials(access, {}, options.runtime.clock).tls(); !tls.ok())
    return tls.error().with_context(access.origin);
  options.runtime.log.info("Kubernetes cluster",
                           {{"server", access.server}, {"access", access.origin}});
  return std::unique_ptr<Cluster>(std::make_unique<HttpCluster>(options, access));
}

Result<int> server_minor_version(Cluster& cluster) {
  OSM_TRY(const std::string version, cluster.api().server_version());
  if (const auto minor = minor_of(version)) return *minor;
  return Error{ErrorCode::kInvalidSyntax,
               cluster.server() + ": '" + version + "' is no version of Kubernetes, like v1.31.1"};
}

}  // namespace osm::inline v1::kubernetes
