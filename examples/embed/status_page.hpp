// The vendor's addition to every sidecar: a page on 127.0.0.1:16000 that says who it serves.
#pragma once

#include "osm/resource_hook.hpp"

namespace vendor {

class StatusPage final : public osm::ResourceHook {
 public:
  osm::Status apply(const osm::ProxyGroup& group, osm::EnvoyResources& resources) const override;
};

}  // namespace vendor
