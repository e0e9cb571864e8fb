// A server that speaks as much of Vault's API as an issuer needs, over TLS; what a real Vault does
// beside it is in tests/e2e/vault_test.py.
#pragma once

#include <doctest/doctest.h>

#include <boost/asio/ssl/context.hpp>
#include <boost/json.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "certificate/made_ca.hpp"
#include "certificate/x509.hpp"
#include "net/scripted_server.hpp"
#include "net/tls_fixture.hpp"
#include "osm/clock.hpp"

namespace osm::vault::testing {

namespace json = boost::json;
namespace x509 = certificate::x509;
using certificate::testing::Made;
using certificate::testing::make_ca;

struct Answer {
  int status = 200;
  std::string body;
};

inline Answer refusal(int status, const std::string& words) {
  return {status, json::serialize(json::object{{"errors", json::array{words}}})};
}

struct Seen {
  std::string line;  // "PUT /v1/pki/sign/openservicemesh"
  std::string token;
  std::string ns;
  json::object body;
};

struct Token {
  std::chrono::seconds left{};  // 0: it never ends
  std::chrono::seconds whole{};
  bool renewable = true;
  std::chrono::seconds renewed_for = whole;
};

class FakeVault {
 public:
  explicit FakeVault(const Clock& clock)
      : clock_(clock), root(make_ca("root", clock.wall_now())), intermediate(below(root)) {}

  net::Address address() const { return server_.address(); }
  const net::TestCa& tls_ca() const { return tls_ca_; }

  // Steering; with lock().
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
  std::map<std::string, Token> tokens;
  std::map<std::string, std::string> logins;           // jwt → the token it is given
  std::function<std::optional<Answer>(Seen&)> meddle;  // answers instead, if it likes

  // From here on: the CA that is told, and the one that signs.
  void set_ca(Made new_root, Made new_intermediate) {
    const auto held = lock();
    root = std::move(new_root);
    intermediate = std::move(new_intermediate);
  }
  static Made below(const Made& ca) {
    const certificate::openssl::CleanErrorQueue clean;
    return make_ca("intermediate", x509::not_before(*ca.certificate) + std::chrono::hours(24), &ca);
  }

  void answer_everything(int status, const std::string& words) {
    const auto held = lock();
    meddle = [=](const Seen&) { return refusal(status, words); };
  }
  void answer_as_usual() {
    const auto held = lock();
    meddle = nullptr;
  }

  std::vector<Seen> seen(const std::string& part = "") const {
    const auto held = lock();
    std::vector<Seen> found;
    for (const Seen& each : seen_)
      if (each.line.find(part) != std::string::npos) found.push_back(each);
    return found;
  }
  std::size_t asked(const std::string& part = "") const { return seen(part).size(); }
  std::string root_pem() const {
    const auto held = lock();
    return root.pem();
  }
  std::string intermediate_pem() const {
    const auto held = lock();
    return intermediate.pem();
  }

 private:
  void serve(net::Peer& peer) {
    if (!peer.start_tls(context_)) return;
    for (std::string line; !(line = peer.next_request()).empty();) {
      Seen seen{line.substr(0, line.rfind(" HTTP")),
                peer.header("X-Vault-Token"),
                peer.header("X-Vault-Namespace"),
                {}};
      if (!peer.body().empty()) seen.body = json::parse(peer.body()).as_object();
      const Answer answer = answer_to(seen);
      peer.send("HTTP/1.1 " + std::to_string(answer.status) + " x\r\nContent-Type: " +
                "application/json\r\nContent-Length: " + std::to_string(answer.body.size()) +
                "\r\n\r\n" + answer.body);
    }
  }

  Answer answer_to(Seen seen) {
    const auto held = lock();
    seen_.push_back(seen);
    if (meddle)
      if (auto answer = meddle(seen)) return *answer;
    if (seen.line == "GET /v1/pki/cert/ca_chain") return chain();
    if (seen.line == "PUT /v1/auth/kubernetes/login") return log_in(seen.body);
    const auto token = tokens.find(seen.token);
    if (token == tokens.end()) return refusal(403, "permission denied");
    if (seen.line == "GET /v1/auth/token/lookup-self") return look_up(token->second);
    if (seen.line == "PUT /v1/auth/token/renew-self") return renew(token->second);
    if (seen.line == "PUT /v1/pki/sign/openservicemesh") return sign(seen.body);
    return refusal(404, "no handler for route");
  }

  Answer chain() const {
    return {200, json::serialize(
                     json::object{{"data", {{"certificate", intermediate.pem() + root.pem()}}}})};
  }
  Answer log_in(const json::object& body) {
    const auto found = logins.find(std::string(body.at("jwt").as_string()));
    if (found == logins.end() || body.at("role") != "mesh")
      return refusal(403, "permission denied");
    tokens[found->second] = {std::chrono::hours(1), std::chrono::hours(1)};
    return {200, json::serialize(json::object{{"auth", {{"client_token", found->second}}}})};
  }
  static Answer look_up(const Token& token) {
    return {200, json::serialize(json::object{{"data",
                                               {{"ttl", token.left.count()},
                                                {"creation_ttl", token.whole.count()},
                                                {"renewable", token.renewable}}}})};
  }
  static Answer renew(Token& token) {
    if (!token.renewable) return refusal(400, "lease is not renewable");
    token.left = token.renewed_for;
    return {200, json::serialize(json::object{
                     {"auth", {{"lease_duration", token.left.count()}, {"renewable", true}}}})};
  }
  Answer sign(const json::object& body) const {
    const certificate::openssl::CleanErrorQueue clean;
    const auto text = [&](const char* name) { return std::string(body.at(name).as_string()); };
    certificate::Subject subject{.common_name = CommonName(text("common_name")),
                                 .spiffe_id = SpiffeId(text("uri_sans"))};
    if (const std::string names = text("alt_names"); !names.empty()) subject.dns_names = {names};
    const auto request = x509::parse_request(text("csr")).value();
    const WallTime now = clock_.wall_now();
    const auto leaf = x509::make_leaf(subject, *X509_REQ_get0_pubkey(request.get()),
                                      {now - std::chrono::seconds(30),
                                       now + std::chrono::seconds(std::stoll(text("ttl")))},
                                      *intermediate.certificate, *intermediate.key)
                          .value();
    // As Vault does, without the last end of line.
    std::string pem = x509::to_pem(*leaf).value();
    pem.pop_back();
    return {200, json::serialize(json::object{
                     {"data", {{"certificate", pem}, {"issuing_ca", intermediate.pem()}}}})};
  }

  const Clock& clock_;
  const net::TestCa tls_ca_;
  boost::asio::ssl::context context_ = net::server_context(*tls_ca_.issue("IP:127.0.0.1"));
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;

 public:
  Made root;
  Made intermediate;

 private:
  net::ScriptedServer server_{[this](net::Peer& peer) { serve(peer); }};  // last: it uses the rest
};

}  // namespace osm::vault::testing
