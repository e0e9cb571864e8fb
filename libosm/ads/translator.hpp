// translate's functions as one object, so that ads can be tested without Envoy's protos.
#pragma once

#include <vector>

#include "translate/translate.hpp"

namespace osm::ads {

// Thread: any, concurrently: everything is pure.
class Translator {
 public:
  virtual ~Translator() = default;
  virtual translate::ProxyClass class_of(const model::MeshSnapshot& snapshot,
                                         const Workload& workload) const = 0;
  virtual std::vector<translate::InputPtr> inputs_for(const model::MeshSnapshot& snapshot,
                                                      const translate::ProxyClass& proxy_class,
                                                      XdsType type) const = 0;
  virtual std::vector<translate::InputPtr> endpoint_inputs_for(
      const model::MeshSnapshot& snapshot, const translate::ProxyClass& proxy_class,
      const ServiceName& service) const = 0;
  virtual std::vector<ServiceName> services_read_by(
      const model::MeshSnapshot& snapshot, const translate::ProxyClass& proxy_class) const = 0;
  virtual std::vector<translate::EncodedResource> encode_secrets(
      const certificate::Certificate& certificate) const = 0;
};

// The real one.
class EnvoyTranslator final : public Translator {
 public:
  translate::ProxyClass class_of(const model::MeshSnapshot& snapshot,
                                 const Workload& workload) const override {
    return translate::class_of(snapshot, workload);
  }
  std::vector<translate::InputPtr> inputs_for(const model::MeshSnapshot& snapshot,
                                              const translate::ProxyClass& proxy_class,
                                              XdsType type) const override {
    return translate::inputs_for(snapshot, proxy_class, type);
  }
  std::vector<translate::InputPtr> endpoint_inputs_for(const model::MeshSnapshot& snapshot,
                                                       const translate::ProxyClass& proxy_class,
                                                       const ServiceName& service) const override {
    return translate::endpoint_inputs_for(snapshot, proxy_class, service);
  }
  std::vector<ServiceName> services_read_by(
      const model::MeshSnapshot& snapshot,
      const translate::ProxyClass& proxy_class) const override {
    return translate::services_read_by(snapshot, proxy_class);
  }
  std::vector<translate::EncodedResource> encode_secrets(
      const certificate::Certificate& certificate) const override {
    return translate::encode_secrets(certificate);
  }
};

}  // namespace osm::ads
