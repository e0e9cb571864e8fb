#include "translate/config_dump.hpp"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/openssl.hpp"
#include "envoy/admin/v3/config_dump_shared.pb.h"
#include "envoy/extensions/transport_sockets/tls/v3/secret.pb.h"
#include "translate/json.hpp"
#include "translate/pack_any.hpp"

namespace osm::inline v1::translate {
namespace {

namespace admin = envoy::admin::v3;
namespace tls = envoy::extensions::transport_sockets::tls::v3;
using google::protobuf::Struct;

google::protobuf::Timestamp timestamp(WallTime time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(
      std::chrono::nanoseconds(time.time_since_epoch()).count());
}

admin::ClientResourceStatus status_of(const DumpedResource& resource) {
  if (resource.acknowledged) return admin::ACKED;
  return resource.nack_detail.empty() ? admin::REQUESTED : admin::NACKED;
}

// Sets the common fields of all dumped states.
template <class State>
void set_status(const DumpedResource& resource, State& state) {
  state.set_client_status(status_of(resource));
  if (resource.acknowledged || resource.nack_detail.empty()) return;
  auto& error = *state.mutable_error_state();
  error.set_details(resource.nack_detail);
  error.set_version_info(resource.version);
  *error.mutable_last_update_attempt() = timestamp(resource.updated);
}

// The resource as it was sent; nothing if it cannot be printed.
template <class Set>
void set_content(const DumpedResource& resource, Set set) {
  google::protobuf::Any any;
  if (any.ParseFromString(resource.any) && to_json(any, false)) set(std::move(any));
}

template <class State>
void set_version(const DumpedResource& resource, State& state) {
  state.set_version_info(resource.version);
  *state.mutable_last_updated() = timestamp(resource.updated);
}

// Sets all of a state that holds one resource in the member `content`.
template <class State>
void set_state(const DumpedResource& resource, State& state,
               google::protobuf::Any* (State::*content)()) {
  set_version(resource, state);
  set_status(resource, state);
  set_content(resource, [&](auto any) { *(state.*content)() = std::move(any); });
}

using Resources = std::vector<const DumpedResource*>;

admin::ClustersConfigDump clusters(const Resources& resources) {
  admin::ClustersConfigDump dump;
  for (const DumpedResource* resource : resources) {
    auto& state = resource->acknowledged ? *dump.add_dynamic_active_clusters()
                                         : *dump.add_dynamic_warming_clusters();
    set_state(*resource, state, &admin::ClustersConfigDump::DynamicCluster::mutable_cluster);
    if (resource->acknowledged) dump.set_version_info(resource->version);
  }
  return dump;
}

admin::ListenersConfigDump listeners(const Resources& resources) {
  admin::ListenersConfigDump dump;
  std::map<std::string, admin::ListenersConfigDump::DynamicListener> by_name;
  for (const DumpedResource* resource : resources) {
    auto& listener = by_name[resource->name];
    listener.set_name(resource->name);
    // The outstanding state decides the listener's status.
    if (!resource->acknowledged || listener.client_status() == admin::UNKNOWN)
      set_status(*resource, listener);
    auto& state = resource->acknowledged ? *listener.mutable_active_state()
                                         : *listener.mutable_warming_state();
    set_version(*resource, state);
    set_content(*resource, [&](auto any) { *state.mutable_listener() = std::move(any); });
    if (resource->acknowledged) dump.set_version_info(resource->version);
  }
  for (auto& [name, listener] : by_name) *dump.add_dynamic_listeners() = std::move(listener);
  return dump;
}

admin::RoutesConfigDump routes(const Resources& resources) {
  using State = admin::RoutesConfigDump::DynamicRouteConfig;
  admin::RoutesConfigDump dump;
  for (const DumpedResource* resource : resources)
    set_state(*resource, *dump.add_dynamic_route_configs(), &State::mutable_route_config);
  return dump;
}

admin::EndpointsConfigDump endpoints(const Resources& resources) {
  using State = admin::EndpointsConfigDump::DynamicEndpointConfig;
  admin::EndpointsConfigDump dump;
  for (const DumpedResource* resource : resources)
    set_state(*resource, *dump.add_dynamic_endpoint_configs(), &State::mutable_endpoint_config);
  return dump;
}

// SHA-256 of each certificate in a PEM text, in lower-case hex, as openssl prints it.
std::string fingerprint_text(const std::string& pem) {
  const openssl::CleanErrorQueue clean;
  const auto certificates = openssl::parse_certificates(pem);
  if (!certificates.ok()) return "no readable certificate";
  std::string text;
  for (const openssl::X509Handle& certificate : *certificates)
    text += (text.empty() ? "sha256:" : " sha256:") +
            openssl::fingerprint(*certificate).value_or("unknown");
  return text;
}

// An encoded secret in the JSON form of an Any, with fingerprints instead of certificates and
// without its key; nullopt if the bytes are no secret.
std::optional<Struct> redacted_secret(const std::string& any) {
  google::protobuf::Any packed;
  tls::Secret secret;
  if (!packed.ParseFromString(any) || !packed.UnpackTo(&secret)) return std::nullopt;

  // Build the result from permitted fields only, instead of removing forbidden ones.
  Struct shown;
  auto& fields = *shown.mutable_fields();
  fields["@type"].set_string_value(packed.type_url());
  fields["name"].set_string_value(secret.name());
  const auto show = [&](const char* kind, const char* field, const std::string& pem) {
    auto& inner = *fields[kind].mutable_struct_value()->mutable_fields();
    auto& source = *inner[field].mutable_struct_value()->mutable_fields();
    source["inline_string"].set_string_value(fingerprint_text(pem));
  };
  if (secret.has_tls_certificate())
    show("tls_certificate", "certificate_chain",
         secret.tls_certificate().certificate_chain().inline_string());
  if (secret.has_validation_context())
    show("validation_context", "trusted_ca",
         secret.validation_context().trusted_ca().inline_string());
  return shown;
}

// SecretsConfigDump is written by hand: the generated type would link Envoy's whole bootstrap API.
Struct secret_state(const DumpedResource& resource) {
  const std::string updated = to_json(timestamp(resource.updated), false).value_or("");
  Struct state;
  auto& fields = *state.mutable_fields();
  fields["name"].set_string_value(resource.name);
  fields["version_info"].set_string_value(resource.version);
  if (updated.size() > 2)  // without the quotes that JSON puts around it
    fields["last_updated"].set_string_value(updated.substr(1, updated.size() - 2));
  fields["client_status"].set_string_value(admin::ClientResourceStatus_Name(status_of(resource)));
  if (status_of(resource) == admin::NACKED) {
    auto& error = *fields["error_state"].mutable_struct_value()->mutable_fields();
    error["details"].set_string_value(resource.nack_detail);
    error["version_info"].set_string_value(resource.version);
  }
  if (auto secret = redacted_secret(resource.any))
    *fields["secret"].mutable_struct_value() = std::move(*secret);
  return state;
}

Struct secrets(const Resources& resources) {
  Struct dump;
  auto& fields = *dump.mutable_fields();
  fields["@type"].set_string_value("type.googleapis.com/envoy.admin.v3.SecretsConfigDump");
  for (const DumpedResource* resource : resources) {
    auto& list =
        fields[resource->acknowledged ? "dynamic_active_secrets" : "dynamic_warming_secrets"];
    *list.mutable_list_value()->add_values()->mutable_struct_value() = secret_state(*resource);
  }
  return dump;
}

bool dumped_before(const DumpedResource* a, const DumpedResource* b) {
  return std::tie(a->name, b->acknowledged, a->version) <
         std::tie(b->name, a->acknowledged, b->version);
}

}  // namespace

std::string config_dump_json(const std::vector<DumpedResource>& resources) {
  std::map<XdsType, Resources> by_type;
  for (const XdsType type : kXdsTypes) by_type[type];
  for (const DumpedResource& resource : resources) by_type[resource.type].push_back(&resource);
  for (auto& [type, list] : by_type) std::sort(list.begin(), list.end(), dumped_before);

  std::string configs;
  const auto add = [&](const google::protobuf::Message& config) {
    if (!configs.empty()) configs += ',';
    configs += to_json(config, false).value_or("{}");
  };
  add(pack_any(clusters(by_type[XdsType::kCluster])));
  add(pack_any(listeners(by_type[XdsType::kListener])));
  add(pack_any(routes(by_type[XdsType::kRoute])));
  add(pack_any(endpoints(by_type[XdsType::kEndpoint])));
  add(secrets(by_type[XdsType::kSecret]));
  return "{\"configs\":[" + configs + "]}";
}

}  // namespace osm::inline v1::translate
