// An API server of which nothing is written, for fakes that answer reads.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "kubernetes/client/api.hpp"

namespace osm::kubernetes_test {

class ReadOnlyApi : public kubernetes::Api {
 public:
  Result<boost::json::object> create(const kubernetes::Resource&,
                                     const boost::json::object&) override {
    return unused();
  }
  Result<boost::json::object> update(const kubernetes::Resource&, const boost::json::object&,
                                     const std::string&) override {
    return unused();
  }
  Result<boost::json::object> patch(const kubernetes::Resource&, const std::string&,
                                    const std::string&, const kubernetes::Patch&) override {
    return unused();
  }
  Status remove(const kubernetes::Resource&, const std::string&, const std::string&,
                const kubernetes::DeleteOptions&) override {
    return unused();
  }

 protected:
  static Error unused() { return {ErrorCode::kInternal, "not of this server"}; }
};

}  // namespace osm::kubernetes_test
