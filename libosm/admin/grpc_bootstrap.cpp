#include "admin/grpc_bootstrap.hpp"

#include <arpa/inet.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "osm/net/address.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

bool is_ip(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

json::object watched(const std::string& directory, const char* certificate, const char* key,
                     const char* roots) {
  return {{"certificate_file", directory + '/' + certificate},
          {"private_key_file", directory + '/' + key},
          {"ca_certificate_file", directory + '/' + roots},
          {"refresh_interval", "10s"}};
}

}  // namespace

Status add_grpc_bootstrap(const GrpcBootstrapInput& input,
                          std::vector<inject::BootstrapFile>& files) {
  OSM_TRY(const net::Address address, net::parse_address(input.controller));
  if (input.controller_name.empty())
    return Error{ErrorCode::kUnavailable,
                 "the controller's certificate has no DNS name yet, by which gRPC libraries know "
                 "it; try again"};
  const json::object controller{
      {"server_uri", "dns:///" + input.controller_name + ':' + std::to_string(address.port)},
      {"channel_creds",
       json::array{json::object{
           {"type", "tls"},
           {"config", watched(input.directory, "sds_cert.pem", "sds_key.pem", "cacert.pem")}}}},
      {"server_features", json::array{"xds_v3"}}};
  const json::object bootstrap{
      {"xds_servers", json::array{controller}},
      {"node", json::object{{"id", input.node_id}}},
      {"certificate_providers",
       json::object{
           {"osm", json::object{{"plugin_name", "file_watcher"},
                                {"config", watched(input.directory, "workload_cert.pem",
                                                   "workload_key.pem", "workload_roots.pem")}}}}},
      {"server_listener_resource_name_template", "grpc/server/%s"}};
  files.push_back({"grpc_bootstrap.json", 0600, true, json::serialize(bootstrap) + '\n'});
  if (!is_ip(address.host)) return {};
  for (inject::BootstrapFile& file : files)
    if (file.name == "hosts")
      file.content.insert(file.content.rfind(inject::kEndOfNames),
                          address.host + ' ' + input.controller_name + '\n');
  return {};
}

}  // namespace osm::inline v1::admin
