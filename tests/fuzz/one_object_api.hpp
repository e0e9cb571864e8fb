// An API server that has one object, whatever it is asked for, and notes what it is told.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kubernetes/client/api.hpp"
#include "osm/kubernetes/cluster.hpp"

namespace osm::fuzz {

class OneObjectApi : public kubernetes::Api, public kubernetes::Cluster {
 public:
  using Resource = kubernetes::Resource;
  using Object = boost::json::object;

  std::optional<Object> object;      // the object; none: 404
  std::vector<Object> created;       // in order
  std::vector<std::string> removed;  // names, in order

  std::string server() const override { return "https://memory"; }
  Api& api() override { return *this; }

  Result<Object> get(const Resource&, const std::string&, const std::string& name,
                     const std::string&) override {
    if (object) return *object;
    return Error{ErrorCode::kNotFound, name + " not found"};
  }
  Result<Object> create(const Resource&, const Object& wanted) override {
    created.push_back(wanted);
    return wanted;
  }
  Result<Object> update(const Resource&, const Object& wanted, const std::string&) override {
    return wanted;
  }
  Result<Object> patch(const Resource&, const std::string&, const std::string&,
                       const kubernetes::Patch&) override {
    return Object();
  }
  Status remove(const Resource&, const std::string&, const std::string& name,
                const kubernetes::DeleteOptions&) override {
    removed.push_back(name);
    return {};
  }
  // Empty.
  Subscription list(const kubernetes::ListRequest&,
                    std::function<void(Result<kubernetes::ListPage>)> done) override {
    done(kubernetes::ListPage{});
    return {};
  }
  Subscription watch(const kubernetes::WatchRequest&, kubernetes::WatchHandler) override {
    return {};
  }
};

}  // namespace osm::fuzz
