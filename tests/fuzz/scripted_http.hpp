// An HTTP client without a network: each call gets the next answer of a list, the last one for
// ever.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "osm/net/http_client.hpp"

namespace osm::fuzz {

class ScriptedHttp final : public net::HttpClient {
 public:
  explicit ScriptedHttp(std::vector<net::Response> answers) : answers_(std::move(answers)) {}

  std::vector<net::HttpRequest> asked;

  Subscription send(net::HttpRequest, std::function<void(Result<net::Response>)>) override {
    return {};
  }
  Subscription open_stream(net::HttpRequest, net::HttpStreamEvents) override { return {}; }
  Result<net::Response> call(net::HttpRequest request) override {
    asked.push_back(std::move(request));
    if (answers_.empty()) return Error{ErrorCode::kUnavailable, "refused"};
    net::Response answer = answers_.front();
    if (answers_.size() > 1) answers_.erase(answers_.begin());
    return answer;
  }

 private:
  std::vector<net::Response> answers_;
};

}  // namespace osm::fuzz
