// An etcd in memory behind a real HTTP server: the part of the JSON gateway that the CA store uses.
// tests/contract/etcd_contract.cpp holds it to the answers of a real etcd.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <boost/json.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/base64.hpp"
#include "net/scripted_server.hpp"
#include "net/tls_fixture.hpp"
#include "osm/net/http.hpp"

namespace osm::etcd_test {

namespace json = boost::json;

// A key's value and its history in numbers.
struct Value {
  std::string base64;
  int create_revision = 0;
  int mod_revision = 0;
  int version = 0;
};

// The keys of one cluster, shared by its members.
struct Keys {
  std::mutex mutex;
  std::map<std::string, Value> values;
  int revision = 1;
};

class FakeEtcd {
 public:
  explicit FakeEtcd(std::shared_ptr<Keys> keys = std::make_shared<Keys>(),
                    std::function<certificate::CertificatePtr()> tls = {})
      : keys_(std::move(keys)), tls_(std::move(tls)) {}

  std::string url(const std::string& scheme = "http") const {
    return scheme + "://" + server_.address().str();
  }
  net::Address address() const { return server_.address(); }
  Keys& keys() { return *keys_; }
  int asked() const {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  // Sets the answer to every request from now on; with `acts` the request is carried out all the
  // same.
  void set_fault(std::optional<net::Response> fault, bool acts = false) {
    std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
    acts_ = acts;
  }
  // Turns users on: only this one may log in, and may use `only_key` alone, or every key if that is
  // empty.
  void require(std::string user, std::string password, std::string only_key = {}) {
    std::lock_guard lock(mutex_);
    user_ = std::move(user);
    password_ = std::move(password);
    only_key_ = std::move(only_key);
  }
  // Turns users off; tokens given before are invalid.
  void require_nobody() { require("", ""); }

  // The gateway's form of errors.
  static net::Response refusal(int status, int code, const std::string& message) {
    return net::json_response(
        json::serialize(json::object{{"error", message}, {"message", message}, {"code", code}}),
        status);
  }

 private:
  static constexpr const char* kToken = "a.1";

  struct Asked {
    std::string method;
    std::string path;
    std::string token;
    std::string body;
  };

  void serve(net::Peer& peer) {
    std::optional<boost::asio::ssl::context> context;
    if (tls_) {
      context.emplace(net::server_context(*tls_()));
      if (!peer.start_tls(*context)) return;
    }
    for (std::string line; !(line = peer.next_request()).empty();) {
      const auto space = line.find(' ');
      const auto end = line.rfind(' ');
      const net::Response response =
          answer({line.substr(0, space), line.substr(space + 1, end - space - 1),
                  peer.header("Authorization"), peer.body()});
      peer.send("HTTP/1.1 " + std::to_string(response.status) +
                " x\r\nContent-Type: " + response.content_type + "\r\nContent-Length: " +
                std::to_string(response.body.size()) + "\r\n\r\n" + response.body);
    }
  }

  net::Response answer(const Asked& asked) {
    std::lock_guard lock(mutex_);
    ++asked_;
    if (fault_ && !acts_) return *fault_;
    net::Response answer = act(asked);
    return fault_ ? *fault_ : answer;
  }

  net::Response act(const Asked& asked) {
    const bool known = asked.path == "/v3/auth/authenticate" || asked.path == "/v3/kv/range" ||
                       asked.path == "/v3/kv/txn";
    if (!known) return net::text_response("Not Found\n", 404);
    if (asked.method != "POST") return net::text_response("Method Not Allowed\n", 405);
    boost::system::error_code fault;
    const json::value parsed = json::parse(asked.body, fault);
    if (fault || !parsed.is_object()) return refusal(400, 3, "unexpected EOF");
    const json::object& body = parsed.get_object();
    if (asked.path == "/v3/auth/authenticate") return authenticate(body);
    if (!asked.token.empty() && (user_.empty() || asked.token != kToken))
      return refusal(401, 16, "etcdserver: invalid auth token");
    if (!user_.empty() && asked.token.empty())
      return refusal(400, 3, "etcdserver: user name is empty");
    return asked.path == "/v3/kv/range" ? range(body) : transact(body);
  }

  net::Response authenticate(const json::object& body) const {
    if (user_.empty()) return refusal(412, 9, "etcdserver: authentication is not enabled");
    if (body.at("name") != json::value(user_) || body.at("password") != json::value(password_))
      return refusal(400, 3, "etcdserver: authentication failed, invalid user ID or password");
    return net::json_response(
        json::serialize(json::object{{"header", json::object()}, {"token", kToken}}));
  }

  // The key in `body`. Failure: the answer to give instead.
  std::optional<net::Response> refused_key(const json::object& body, std::string& key) const {
    const json::value* const text = body.if_contains("key");
    if (!text) return refusal(400, 3, "etcdserver: key is not provided");
    const auto bytes = from_base64(std::string(text->as_string()));
    if (!bytes) return refusal(400, 3, "illegal base64 data at input byte 0");
    key = *bytes;
    if (!only_key_.empty() && key != only_key_)
      return refusal(403, 7, "etcdserver: permission denied");
    return std::nullopt;
  }

  net::Response range(const json::object& body) const {
    std::string key;
    if (auto refused = refused_key(body, key)) return *refused;
    std::lock_guard lock(keys_->mutex);
    json::object out{{"header", header()}};
    if (const auto at = keys_->values.find(key); at != keys_->values.end()) {
      const Value& value = at->second;
      out["kvs"] =
          json::array{json::object{{"key", body.at("key")},
                                   {"create_revision", std::to_string(value.create_revision)},
                                   {"mod_revision", std::to_string(value.mod_revision)},
                                   {"version", std::to_string(value.version)},
                                   {"value", value.base64}}};
      out["count"] = "1";
    }
    return net::json_response(json::serialize(out));
  }

  net::Response transact(const json::object& body) const {
    const json::object& condition = body.at("compare").as_array().at(0).as_object();
    const json::object& put =
        body.at("success").as_array().at(0).as_object().at("request_put").as_object();
    // The only transaction that is known here: put the key unless it exists.
    CHECK(condition.at("target") == "CREATE");
    CHECK(condition.at("result") == "EQUAL");
    CHECK(condition.at("create_revision") == "0");
    CHECK(condition.at("key") == put.at("key"));
    std::string key;
    if (auto refused = refused_key(put, key)) return *refused;
    std::lock_guard lock(keys_->mutex);
    json::object out;
    if (!keys_->values.contains(key)) {
      ++keys_->revision;
      keys_->values[key] = {std::string(put.at("value").as_string()), keys_->revision,
                            keys_->revision, 1};
      out["succeeded"] = true;
      out["responses"] = json::array{json::object{
          {"response_put", {{"header", {{"revision", std::to_string(keys_->revision)}}}}}}};
    }
    out["header"] = header();
    return net::json_response(json::serialize(out));
  }

  json::object header() const { return {{"revision", std::to_string(keys_->revision)}}; }

  const std::shared_ptr<Keys> keys_;
  const std::function<certificate::CertificatePtr()> tls_;
  mutable std::mutex mutex_;
  int asked_ = 0;
  std::optional<net::Response> fault_;
  bool acts_ = false;
  std::string user_;
  std::string password_;
  std::string only_key_;
  net::ScriptedServer server_{[this](net::Peer& peer) { serve(peer); }};  // last: it uses the rest
};

}  // namespace osm::etcd_test
