// The etcd under test: the fake one, or the one that OSM_CONTRACT_ETCD (HOST:PORT) names.
#pragma once

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <memory>
#include <string>
#include <utility>

#include "base/base64.hpp"
#include "contract/setting.hpp"
#include "etcd/fake_etcd.hpp"
#include "osm/net/http_client.hpp"
#include "osm/runtime/threads.hpp"

namespace osm::contract {

namespace json = boost::json;

struct Answer {
  int status = 0;
  std::string text;
  json::object body;  // empty: the text is no JSON object

  std::string at(const char* name) const {
    const json::value* const value = body.if_contains(name);
    return value ? json::value_to<std::string>(*value) : "";
  }
};

class EtcdServer {
 public:
  virtual ~EtcdServer() = default;
  // Turns users on. `user` may use `key` and no other.
  virtual void enable_users(const std::string& user, const std::string& password,
                            const std::string& key) = 0;
  virtual void disable_users() = 0;
  const net::Address& address() const { return address_; }

  Answer ask(const std::string& method, const std::string& path, const std::string& body,
             const std::string& token = "") {
    net::HttpRequest request{.method = method,
                             .target = path,
                             .headers = {{"Content-Type", "application/json"}},
                             .body = body};
    if (!token.empty()) request.headers.emplace_back("Authorization", token);
    const auto response =
        net::HttpClient::create({.address = address_}, io_.executor())->call(request);
    REQUIRE_MESSAGE(response.ok(), response.error().text());
    Answer answer{response->status, response->body, {}};
    boost::system::error_code fault;
    if (json::value value = json::parse(response->body, fault); !fault && value.is_object())
      answer.body = value.get_object();
    return answer;
  }
  Answer post(const std::string& path, const json::object& body, const std::string& token = "") {
    return ask("POST", "/v3/" + path, json::serialize(body), token);
  }

 protected:
  net::Address address_;

 private:
  net::Threads io_{1};
};

class FakeEtcdServer final : public EtcdServer {
 public:
  FakeEtcdServer() { address_ = etcd_.address(); }
  void enable_users(const std::string& user, const std::string& password,
                    const std::string& key) override {
    etcd_.require(user, password, key);
  }
  void disable_users() override { etcd_.require_nobody(); }

 private:
  etcd_test::FakeEtcd etcd_;
};

class RealEtcdServer final : public EtcdServer {
 public:
  explicit RealEtcdServer(const std::string& address) {
    address_ = net::parse_address(address).value();
  }
  void enable_users(const std::string& user, const std::string& password,
                    const std::string& key) override {
    std::string end = key;  // the key alone: up to the next one
    ++end.back();
    static bool known = false;  // a real etcd keeps its users
    if (std::exchange(known, true)) return make("enable", {});
    make("user/add", {{"name", "root"}, {"password", "toor"}});
    make("role/add", {{"name", "root"}});
    make("user/grant", {{"user", "root"}, {"role", "root"}});
    make("role/add", {{"name", "osm"}});
    make("role/grant",
         {{"name", "osm"},
          {"perm", {{"permType", "READWRITE"}, {"key", base64(key)}, {"range_end", base64(end)}}}});
    make("user/add", {{"name", user}, {"password", password}});
    make("user/grant", {{"user", user}, {"role", "osm"}});
    make("enable", {});
  }
  void disable_users() override {
    const auto root = post("auth/authenticate", {{"name", "root"}, {"password", "toor"}});
    make("disable", {}, root.at("token"));
  }

 private:
  void make(const std::string& path, const json::object& body, const std::string& token = "") {
    const Answer answer = post("auth/" + path, body, token);
    REQUIRE_MESSAGE(answer.status == 200, answer.text);
  }
};

inline std::unique_ptr<EtcdServer> make_etcd() {
  if (const auto address = setting("OSM_CONTRACT_ETCD"))
    return std::make_unique<RealEtcdServer>(*address);
  return std::make_unique<FakeEtcdServer>();
}

}  // namespace osm::contract
