#include "translate/references.hpp"

#include <envoy/config/cluster/v3/cluster.pb.h>
#include <envoy/config/core/v3/grpc_service.pb.h>
#include <envoy/config/route/v3/route_components.pb.h>
#include <envoy/config/trace/v3/zipkin.pb.h>
#include <envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.pb.h>
#include <envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.pb.h>
#include <envoy/extensions/transport_sockets/tls/v3/secret.pb.h>
#include <google/protobuf/any.pb.h>

#include <algorithm>
#include <memory>
#include <string>

namespace osm::inline v1::translate {
namespace {

namespace hcm = envoy::extensions::filters::network::http_connection_manager::v3;
namespace tcp = envoy::extensions::filters::network::tcp_proxy::v3;
namespace tls = envoy::extensions::transport_sockets::tls::v3;
using envoy::config::cluster::v3::Cluster;
using envoy::config::core::v3::GrpcService;
using envoy::config::route::v3::RouteAction;
using envoy::config::trace::v3::ZipkinConfig;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

class Finder {
 public:
  void visit(const Message& message) {
    note(message);
    if (const auto* any = dynamic_cast<const google::protobuf::Any*>(&message)) {
      if (const auto inner = unpack(*any)) visit(*inner);
      return;
    }
    std::vector<const FieldDescriptor*> fields;
    const auto* reflection = message.GetReflection();
    reflection->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!field->is_repeated()) {
        visit(reflection->GetMessage(message, field));
        continue;
      }
      for (int i = 0; i < reflection->FieldSize(message, field); ++i)
        visit(reflection->GetRepeatedMessage(message, field, i));
    }
  }

  std::vector<EncodedResource::Reference> take() {
    std::sort(found_.begin(), found_.end());
    found_.erase(std::unique(found_.begin(), found_.end()), found_.end());
    return std::move(found_);
  }

 private:
  void add(XdsType type, const std::string& name) {
    if (!name.empty()) found_.push_back({type, name});
  }

  template <class Destination>
  void add_clusters(const Destination& destination) {
    add(XdsType::kCluster, destination.cluster());
    for (const auto& part : destination.weighted_clusters().clusters())
      add(XdsType::kCluster, part.name());
  }

  void note(const Message& message) {
    if (const auto* cluster = dynamic_cast<const Cluster*>(&message)) {
      if (cluster->type() != Cluster::EDS) return;
      const std::string& service = cluster->eds_cluster_config().service_name();
      add(XdsType::kEndpoint, service.empty() ? cluster->name() : service);
    } else if (const auto* rds = dynamic_cast<const hcm::Rds*>(&message)) {
      add(XdsType::kRoute, rds->route_config_name());
    } else if (const auto* action = dynamic_cast<const RouteAction*>(&message)) {
      add_clusters(*action);
    } else if (const auto* proxy = dynamic_cast<const tcp::TcpProxy*>(&message)) {
      add_clusters(*proxy);
    } else if (const auto* zipkin = dynamic_cast<const ZipkinConfig*>(&message)) {
      add(XdsType::kCluster, zipkin->collector_cluster());
    } else if (const auto* grpc = dynamic_cast<const GrpcService::EnvoyGrpc*>(&message)) {
      add(XdsType::kCluster, grpc->cluster_name());
    } else if (const auto* secret = dynamic_cast<const tls::SdsSecretConfig*>(&message)) {
      if (secret->has_sds_config()) add(XdsType::kSecret, secret->name());
    }
  }

  // Null if its type is not linked in or its bytes are invalid.
  static std::unique_ptr<Message> unpack(const google::protobuf::Any& any) {
    const std::string& url = any.type_url();
    const auto* descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
            url.substr(url.rfind('/') + 1));
    if (!descriptor) return nullptr;
    const auto* prototype =
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor);
    std::unique_ptr<Message> message(prototype->New());
    return message->ParseFromString(any.value()) ? std::move(message) : nullptr;
  }

  std::vector<EncodedResource::Reference> found_;
};

}  // namespace

std::vector<EncodedResource::Reference> references_of(const Message& message) {
  Finder finder;
  finder.visit(message);
  return finder.take();
}

}  // namespace osm::inline v1::translate
