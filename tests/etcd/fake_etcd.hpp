// An etcd in memory behind a real HTTP server: what of its JSON gateway the CA store uses, with
// what it insists on.
#pragma once

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/base64.hpp"
#include "osm/http_server.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/threads.hpp"

namespace osm::etcd_test {

namespace json = boost::json;

// What members of one cluster hold in common.
struct Keys {
  std::mutex mutex;
  std::map<std::string, std::string> values;
  int revision = 1;
};

class FakeEtcd {
 public:
  explicit FakeEtcd(std::shared_ptr<Keys> keys = std::make_shared<Keys>(),
                    std::function<certificate::CertificatePtr()> tls = {})
      : keys_(std::move(keys)) {
    auto server = net::HttpServer::start(
        {.listen = {"127.0.0.1", 0, ""}, .tls = std::move(tls)}, threads_.executor(),
        handlers_.executor(), [this](const net::Request& request) { return answer(request); },
        log_);
    REQUIRE_MESSAGE(server.ok(), server.error().text());
    server_ = *std::move(server);
  }

  std::string url(const std::string& scheme = "http") const {
    return scheme + "://" + server_->address().str();
  }
  Keys& keys() { return *keys_; }
  int asked() const {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  // The answer to every request from now on; `acts`: what was asked is done all the same.
  void set_fault(std::optional<net::Response> fault, bool acts = false) {
    std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
    acts_ = acts;
  }
  // From here on nobody is let in without this user.
  void require(std::string user, std::string password) {
    std::lock_guard lock(mutex_);
    user_ = std::move(user);
    password_ = std::move(password);
  }

  // As the gateway words its errors.
  static net::Response refusal(int status, int code, const std::string& message) {
    return net::json_response(
        json::serialize(json::object{{"error", message}, {"message", message}, {"code", code}}),
        status);
  }

 private:
  net::Response answer(const net::Request& request) {
    std::lock_guard lock(mutex_);
    ++asked_;
    if (fault_ && !acts_) return *fault_;
    net::Response answer = act(request);
    return fault_ ? *fault_ : answer;
  }

  net::Response act(const net::Request& request) {
    if (request.method != "POST") return refusal(405, 12, "Method Not Allowed");
    const json::object body = json::parse(request.body).as_object();
    if (request.path == "/v3/auth/authenticate") return authenticate(body);
    if (!user_.empty() && !logged_in_) return refusal(400, 3, "etcdserver: user name is empty");
    if (request.path == "/v3/kv/range") return range(body);
    if (request.path == "/v3/kv/txn") return transact(body);
    return refusal(404, 5, "Not Found");
  }

  // Tokens travel in a header, which handlers are not shown: whoever logged in is in.
  net::Response authenticate(const json::object& body) {
    if (user_.empty()) return refusal(400, 9, "etcdserver: authentication is not enabled");
    if (body.at("name") != json::value(user_) || body.at("password") != json::value(password_))
      return refusal(400, 3, "etcdserver: authentication failed, invalid user ID or password");
    logged_in_ = true;
    return net::json_response(R"({"header":{},"token":"a.1"})");
  }

  net::Response range(const json::object& body) {
    const std::string key = from_base64(std::string(body.at("key").as_string())).value();
    std::lock_guard lock(keys_->mutex);
    json::object out{{"header", json::object{{"revision", std::to_string(keys_->revision)}}}};
    if (const auto at = keys_->values.find(key); at != keys_->values.end()) {
      out["kvs"] = json::array{json::object{{"key", body.at("key")}, {"value", at->second}}};
      out["count"] = "1";
    }
    return net::json_response(json::serialize(out));
  }

  net::Response transact(const json::object& body) {
    const json::object& condition = body.at("compare").as_array().at(0).as_object();
    const json::object& put =
        body.at("success").as_array().at(0).as_object().at("request_put").as_object();
    // Anything else would not be "unless there is one".
    CHECK(condition.at("target") == "CREATE");
    CHECK(condition.at("result") == "EQUAL");
    CHECK(condition.at("create_revision") == "0");
    CHECK(condition.at("key") == put.at("key"));
    const std::string key = from_base64(std::string(put.at("key").as_string())).value();
    std::lock_guard lock(keys_->mutex);
    const bool fresh = keys_->values.emplace(key, put.at("value").as_string()).second;
    if (fresh) ++keys_->revision;
    json::object out{{"header", json::object()}};
    if (fresh) out["succeeded"] = true;
    return net::json_response(json::serialize(out));
  }

  const std::shared_ptr<Keys> keys_;
  mutable std::mutex mutex_;
  int asked_ = 0;
  std::optional<net::Response> fault_;
  bool acts_ = false;
  std::string user_;
  std::string password_;
  bool logged_in_ = false;
  testing::CapturingLog log_;
  net::Threads handlers_{1};
  net::Threads threads_{1};
  std::unique_ptr<net::HttpServer> server_;
};

}  // namespace osm::etcd_test
