// An etcd in memory behind a real HTTP server: the part of the JSON gateway that plugins/etcd uses.
// tests/contract/etcd_contract.cpp holds it to the answers of a real etcd.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ssl/context.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "etcd/etcd_keys.hpp"
#include "net/scripted_server.hpp"
#include "net/tls_fixture.hpp"
#include "osm/net/http.hpp"

namespace osm::etcd_test {

namespace json = boost::json;

class FakeEtcd {
 public:
  explicit FakeEtcd(std::shared_ptr<Keys> keys = std::make_shared<Keys>(),
                    std::function<certificate::CertificatePtr()> tls = {})
      : keys_(std::move(keys)), tls_(std::move(tls)) {}
  ~FakeEtcd() { watches_ = -1; }

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
  // Turns users on: only this one may log in, and may use `only_key` and keys that begin so.
  void require(std::string user, std::string password, std::string only_key = {}) {
    std::lock_guard lock(mutex_);
    user_ = std::move(user);
    password_ = std::move(password);
    only_key_ = std::move(only_key);
  }
  int logins() const {
    std::lock_guard lock(mutex_);
    return logins_;
  }
  // Tokens given before are invalid, as after a restart.
  void forget_tokens() {
    std::lock_guard lock(mutex_);
    ++tokens_;
  }
  // Ends all watches of this member.
  void cut_watches() { ++watches_; }
  // While false, watches of this member tell nothing, as if it lagged.
  void set_telling(bool telling) { telling_ = telling; }
  int watches_opened() const { return watches_opened_; }
  // Lets the watches of this member tell that they have told everything.
  void tell_progress() { ++progress_; }
  int progress_told() const { return progress_told_; }
  // Turns users off; tokens given before are invalid.
  void require_nobody() { require("", ""); }

  // The gateway's form of errors.
  static net::Response refusal(int status, int code, const std::string& message) {
    return net::json_response(
        json::serialize(json::object{{"error", message}, {"message", message}, {"code", code}}),
        status);
  }

 private:
  std::string token() const { return "a." + std::to_string(tokens_); }

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
      const Asked asked{line.substr(0, space), line.substr(space + 1, end - space - 1),
                        peer.header("Authorization"), peer.body()};
      if (asked.path == "/v3/watch" && !faulty()) return watch(peer, asked);
      const net::Response response = answer(asked);
      peer.send("HTTP/1.1 " + std::to_string(response.status) +
                " x\r\nContent-Type: " + response.content_type + "\r\nContent-Length: " +
                std::to_string(response.body.size()) + "\r\n\r\n" + response.body);
    }
  }

  bool faulty() const {
    std::lock_guard lock(mutex_);
    return fault_.has_value();
  }

  static bool send_result(net::Peer& peer, json::object result) {
    const std::string line = json::serialize(json::object{{"result", std::move(result)}}) + '\n';
    std::ostringstream size;
    size << std::hex << line.size();
    return peer.send(size.str() + "\r\n" + line + "\r\n");
  }

  // The reason that etcd gives; empty: it may watch.
  std::string refused_watch(const Asked& asked, const std::string& key) const {
    std::lock_guard lock(mutex_);
    const std::string code = "rpc error: code = ";
    if (user_.empty() ? !asked.token.empty() : !asked.token.empty() && asked.token != token())
      return code + "Unauthenticated desc = etcdserver: invalid auth token";
    if (!user_.empty() && asked.token.empty())
      return code + "InvalidArgument desc = etcdserver: user name is empty";
    if (!only_key_.empty() && !key.starts_with(only_key_))
      return code + "PermissionDenied desc = etcdserver: permission denied";
    return {};
  }

  // Until the client goes. Every event has an answer of its own.
  void watch(net::Peer& peer, const Asked& asked) {
    const json::object body = json::parse(asked.body).at("create_request").as_object();
    const std::string key = *from_base64(text_of(body, "key"));
    const std::string end = *from_base64(text_of(body, "range_end"));
    const int start =
        body.contains("start_revision") ? std::stoi(text_of(body, "start_revision")) : 0;
    if (!peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n"))
      return;
    const int mine = watches_;  // before it counts as opened: it can be cut from then on
    int progress = progress_;   // before it counts: who counts it may let it tell
    ++watches_opened_;
    if (const std::string reason = refused_watch(asked, key); !reason.empty()) {
      send_result(peer, {{"header", locked_header()},
                         {"watch_id", "-1"},
                         {"created", true},
                         {"canceled", true},
                         {"cancel_reason", reason}});
      return peer.wait_for_close();
    }
    send_result(peer, {{"header", locked_header()}, {"created", true}});
    int next = start > 0 ? start : locked_revision() + 1;
    while (watches_ == mine) {
      std::vector<json::object> answers;
      bool tells_progress = false;
      if (telling_) {
        std::lock_guard lock(keys_->mutex);
        if (next < keys_->compacted) {
          send_result(peer, {{"header", {{"cluster_id", "1"}}},
                             {"canceled", true},
                             {"compact_revision", std::to_string(keys_->compacted)}});
          break;
        }
        for (const Change& change : keys_->history)
          if (change.revision >= next && change.key >= key && change.key < end)
            answers.push_back({{"header", header()}, {"events", json::array{to_json(change)}}});
        next = std::max(next, keys_->revision + 1);
        tells_progress =
            body.contains("progress_notify") && std::exchange(progress, progress_) != progress_;
        if (tells_progress) answers.push_back({{"header", header()}});
      }
      for (json::object& answer : answers)
        if (!send_result(peer, std::move(answer))) return;
      progress_told_ += tells_progress ? 1 : 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  json::object locked_header() const {
    std::lock_guard lock(keys_->mutex);
    return header();
  }
  int locked_revision() const {
    std::lock_guard lock(keys_->mutex);
    return keys_->revision;
  }

  net::Response answer(const Asked& asked) {
    std::lock_guard lock(mutex_);
    ++asked_;
    if (fault_ && !acts_) return *fault_;
    net::Response answer = act(asked);
    return fault_ ? *fault_ : answer;
  }

  net::Response act(const Asked& asked) {
    using Act = net::Response (FakeEtcd::*)(const json::object&) const;
    static const std::map<std::string, Act> kActs{
        {"/v3/auth/authenticate", &FakeEtcd::authenticate},
        {"/v3/kv/range", &FakeEtcd::range},
        {"/v3/kv/put", &FakeEtcd::put},
        {"/v3/kv/txn", &FakeEtcd::transact},
        {"/v3/kv/deleterange", &FakeEtcd::remove},
        {"/v3/kv/compaction", &FakeEtcd::compact},
        {"/v3/lease/grant", &FakeEtcd::grant},
        {"/v3/lease/keepalive", &FakeEtcd::keep_alive},
        {"/v3/lease/revoke", &FakeEtcd::revoke}};
    const auto known = kActs.find(asked.path);
    if (known == kActs.end()) return net::text_response("Not Found\n", 404);
    if (asked.method != "POST") return net::text_response("Method Not Allowed\n", 405);
    boost::system::error_code fault;
    const json::value parsed = json::parse(asked.body, fault);
    if (fault || !parsed.is_object()) return refusal(400, 3, "unexpected EOF");
    const json::object& body = parsed.get_object();
    if (asked.path == "/v3/auth/authenticate") return authenticate(body);
    if (!asked.token.empty() && (user_.empty() || asked.token != token()))
      return refusal(401, 16, "etcdserver: invalid auth token");
    if (!user_.empty() && asked.token.empty())
      return refusal(400, 3, "etcdserver: user name is empty");
    std::lock_guard lock(keys_->mutex);
    keys_->end_leases();
    return (this->*known->second)(body);
  }

  net::Response authenticate(const json::object& body) const {
    if (user_.empty()) return refusal(412, 9, "etcdserver: authentication is not enabled");
    if (body.at("name") != json::value(user_) || body.at("password") != json::value(password_))
      return refusal(400, 3, "etcdserver: authentication failed, invalid user ID or password");
    ++logins_;
    return net::json_response(
        json::serialize(json::object{{"header", json::object()}, {"token", token()}}));
  }

  // The key in `body`. Failure: the answer to give instead.
  std::optional<net::Response> refused_key(const json::object& body, std::string& key) const {
    const json::value* const text = body.if_contains("key");
    if (!text) return refusal(400, 3, "etcdserver: key is not provided");
    const auto bytes = from_base64(std::string(text->as_string()));
    if (!bytes) return refusal(400, 3, "illegal base64 data at input byte 0");
    key = *bytes;
    if (!only_key_.empty() && !key.starts_with(only_key_))
      return refusal(403, 7, "etcdserver: permission denied");
    return std::nullopt;
  }

  net::Response range(const json::object& body) const {
    std::string key;
    if (auto refused = refused_key(body, key)) return *refused;
    std::string end = key + '\0';
    if (const json::value* const text = body.if_contains("range_end"))
      end = *from_base64(std::string(text->as_string()));
    const bool keys_only = body.contains("keys_only") && body.at("keys_only").as_bool();
    const std::size_t limit =
        body.contains("limit") ? body.at("limit").to_number<std::size_t>() : 0;
    // The only old revision that is known here: the one before a page.
    if (body.contains("revision") && std::stoi(text_of(body, "revision")) < keys_->compacted)
      return refusal(400, 11, "etcdserver: mvcc: required revision has been compacted");
    json::array pairs;
    std::size_t count = 0;
    for (auto at = keys_->values.lower_bound(key); at != keys_->values.end() && at->first < end;
         ++at, ++count)
      if (limit == 0 || pairs.size() < limit)
        pairs.push_back(to_json(at->first, at->second, keys_only));
    json::object out{{"header", header()}};
    if (count > pairs.size()) out["more"] = true;
    if (!pairs.empty()) {
      out["count"] = std::to_string(count);
      out["kvs"] = std::move(pairs);
    }
    return net::json_response(json::serialize(out));
  }

  net::Response put(const json::object& body) const {
    std::string key;
    if (auto refused = refused_key(body, key)) return *refused;
    const std::string lease = body.contains("lease") ? text_of(body, "lease") : "";
    if (!lease.empty() && !keys_->leases.contains(lease)) return no_lease();
    keys_->put(key, text_of(body, "value"), lease);
    return net::json_response(json::serialize(json::object{{"header", header()}}));
  }

  net::Response remove(const json::object& body) const {
    std::string key;
    if (auto refused = refused_key(body, key)) return *refused;
    keys_->remove(key);
    return net::json_response(json::serialize(json::object{{"header", header()}}));
  }

  net::Response compact(const json::object& body) const {
    keys_->compact(std::stoi(text_of(body, "revision")));
    return net::json_response(json::serialize(json::object{{"header", header()}}));
  }

  net::Response transact(const json::object& body) const {
    if (const auto meanwhile = std::exchange(keys_->meanwhile, {})) meanwhile();
    const json::object& condition = body.at("compare").as_array().at(0).as_object();
    const json::object& then = body.at("success").as_array().at(0).as_object();
    const bool puts = then.contains("request_put");
    const json::object& change = then.at(puts ? "request_put" : "request_delete_range").as_object();
    // The only transactions that are known here: put or delete the key if it is of this revision;
    // 0: if there is none.
    const bool created = condition.at("target") == "CREATE";
    CHECK((created || condition.at("target") == "MOD"));
    CHECK(condition.at("result") == "EQUAL");
    CHECK(condition.at("key") == change.at("key"));
    std::string key;
    if (auto refused = refused_key(change, key)) return *refused;
    const auto at = keys_->values.find(key);
    const Value value = at == keys_->values.end() ? Value() : at->second;
    json::object out;
    if (text_of(condition, created ? "create_revision" : "mod_revision") ==
        std::to_string(created ? value.create_revision : value.mod_revision)) {
      if (puts)
        keys_->put(key, text_of(change, "value"), "");
      else
        keys_->remove(key);
      out["succeeded"] = true;
      out["responses"] = json::array{
          json::object{{puts ? "response_put" : "response_delete_range",
                        {{"header", {{"revision", std::to_string(keys_->revision)}}}}}}};
    }
    out["header"] = header();
    return net::json_response(json::serialize(out));
  }

  net::Response grant(const json::object& body) const {
    const std::chrono::seconds life(body.at("TTL").to_number<int>());
    const std::string id = std::to_string(7000 + ++keys_->granted);
    keys_->leases[id] = {life, keys_->now() + life};
    return net::json_response(json::serialize(
        json::object{{"header", header()}, {"ID", id}, {"TTL", std::to_string(life.count())}}));
  }

  net::Response keep_alive(const json::object& body) const {
    const std::string id = text_of(body, "ID");
    json::object result{{"header", header()}, {"ID", id}};
    if (const auto at = keys_->leases.find(id); at != keys_->leases.end()) {
      at->second.end = keys_->now() + at->second.life;
      result["TTL"] = std::to_string(at->second.life.count());
    }
    return net::json_response(json::serialize(json::object{{"result", result}}) + "\n");
  }

  net::Response revoke(const json::object& body) const {
    const std::string id = text_of(body, "ID");
    if (!keys_->leases.contains(id)) return no_lease();
    keys_->revoke(id);
    return net::json_response(json::serialize(json::object{{"header", header()}}));
  }

  static net::Response no_lease() {
    return refusal(404, 5, "etcdserver: requested lease not found");
  }
  static std::string text_of(const json::object& body, const char* name) {
    return json::value_to<std::string>(body.at(name));
  }

  json::object header() const { return {{"revision", std::to_string(keys_->revision)}}; }

  const std::shared_ptr<Keys> keys_;
  const std::function<certificate::CertificatePtr()> tls_;
  mutable std::mutex mutex_;
  int asked_ = 0;
  std::optional<net::Response> fault_;
  bool acts_ = false;
  mutable int logins_ = 0;
  int tokens_ = 1;
  std::string user_;
  std::string password_;
  std::string only_key_;
  std::atomic<int> watches_{0};  // changes when the present ones end
  std::atomic<int> watches_opened_{0};
  std::atomic<bool> telling_{true};
  std::atomic<int> progress_{0};
  std::atomic<int> progress_told_{0};
  net::ScriptedServer server_{[this](net::Peer& peer) { serve(peer); }};  // last: it uses the rest
};

}  // namespace osm::etcd_test
