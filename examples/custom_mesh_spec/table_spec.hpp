// A mesh from a vendor's own table of services and callers:
//
//   service,address,port,runs_as,callers
//   books,10.96.0.7,80,books,web reports
//   web,10.96.0.8,80,web,
//
// Everything is of one namespace. A call is any HTTP request; who is not a caller is refused.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "osm/mesh_spec.hpp"
#include "osm/notifier.hpp"
#include "osm/result.hpp"

namespace vendor {

class TableSpec final : public osm::MeshSpec {
 public:
  explicit TableSpec(std::string ns) : ns_(std::move(ns)) {}

  // Reads the table and announces what is different from the last. A table that cannot be read
  // changes nothing; a row that means nothing is left out and reported. Thread: one at a time.
  osm::Status load(const std::string& path);

  osm::SharedList<osm::smi::TrafficSplit> list_traffic_splits() const override { return {}; }
  osm::SharedList<osm::smi::HttpRouteGroup> list_http_traffic_specs() const override;
  osm::SharedList<osm::smi::TcpRoute> list_tcp_traffic_specs() const override { return {}; }
  osm::SharedList<osm::smi::TrafficTarget> list_traffic_targets() const override;
  std::vector<osm::ServiceAccount> list_service_accounts() const override;
  osm::SharedList<osm::Service> list_services() const override;
  std::shared_ptr<const osm::Service> get_service(const osm::ServiceName& name) const override;
  std::vector<osm::ServiceAccount> list_all_service_accounts() const override;
  std::vector<std::string> list_namespaces() const override { return {ns_}; }
  osm::MeshConfig get_mesh_config() const override { return {}; }
  osm::SharedList<osm::MeshRootCertificate> list_root_certificates() const override { return {}; }
  bool has_synced() const override;
  std::vector<osm::Problem> list_problems() const override;
  osm::Subscription subscribe(
      std::function<void(const std::vector<osm::ObjectKey>&)> on_change) override {
    return changed_.subscribe(std::move(on_change));
  }

 private:
  // Everything one table says. Rows that did not change keep their objects.
  struct Content {
    std::map<std::string, std::shared_ptr<const osm::Service>> services;
    std::map<std::string, std::shared_ptr<const osm::smi::TrafficTarget>> targets;
    std::vector<osm::Problem> problems;
  };

  void read_row(const std::string& row, const std::string& path, int line, Content& content) const;
  std::vector<osm::ObjectKey> differences(const Content& before, Content& after) const;

  const std::string ns_;
  mutable std::mutex mutex_;
  bool synced_ = false;
  Content content_;
  osm::Notifier<const std::vector<osm::ObjectKey>&> changed_;
};

}  // namespace vendor
