#include "join_server.hpp"

#include "osm/net/join_api.hpp"
#include "osm/net/ports.hpp"

namespace osm::controller {

Result<std::unique_ptr<JoinServer>> JoinServer::start(const Options& options, OwnRuntime& runtime,
                                                      certificate::Manager& manager,
                                                      const TrustDomain& domain,
                                                      net::AdminApiOptions& api) {
  std::unique_ptr<JoinServer> join(new JoinServer(runtime.lanes()));
  if (options.join_address.empty()) {
    api.join_tokens = nullptr;
    return join;
  }
  OSM_TRY(const net::Address listen, net::parse_address(options.join_address));
  const certificate::Subject subject = net::join_subject(domain, options.osm_namespace);
  OSM_TRY(join->certificate_, certificate::KeptCertificate::issue(manager, subject));
  JoinServer& self = *join;
  net::HttpServerOptions http = net::kJoinPort.options(listen);
  http.keep_alive = false;
  http.tls = [&self] { return self.certificate_->load(); };
  auto server = net::HttpServer::start(http, runtime.asio(), join->asking_, net::make_join_api(api),
                                       runtime.log);
  if (!server.ok())
    return Error{ErrorCode::kInvalidArgument, "--join-address: " + server.error().message};
  join->server_ = std::move(*server);
  api.join_port = join->server_->address().port;
  api.join_server_name = subject.dns_names.front();
  return join;
}

Status JoinServer::stop(std::chrono::milliseconds deadline) {
  return server_ ? server_->stop(deadline) : Status();
}

}  // namespace osm::controller
