// A Vault in memory behind a real HTTPS server: the part of the API that an issuer needs, set up as
// docs/certificates.md says. tests/contract/vault_contract.cpp holds it to the answers of a real
// one.
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
  std::chrono::seconds left{};  // 0: it never ends, and cannot be renewed
  std::chrono::seconds whole{};
  bool renewable = true;
  std::chrono::seconds renewed_for = whole;
  bool periodic = false;
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
    const openssl::CleanErrorQueue clean;
    return make_ca("intermediate", x509::not_before(*ca.certificate) + std::chrono::hours(24), &ca);
  }

  void set_sealed(bool sealed) {
    const auto held = lock();
    sealed_ = sealed;
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
      boost::system::error_code fault;
      const json::value body =
          peer.body().empty() ? json::object() : json::parse(peer.body(), fault);
      const bool readable = !fault && body.is_object();
      if (readable) seen.body = body.get_object();
      const Answer answer = readable ? answer_to(seen) : refusal(400, "failed to parse JSON input");
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
    if (sealed_) return refusal(503, "Vault is sealed");
    if (seen.line == "GET /v1/pki/cert/ca_chain") return chain();
    if (seen.line == "PUT /v1/auth/kubernetes/login") return log_in(seen.body);
    const auto token = tokens.find(seen.token);
    if (token == tokens.end()) return denied();
    if (seen.line == "GET /v1/auth/token/lookup-self") return look_up(token->second);
    if (seen.line == "PUT /v1/auth/token/renew-self") return renew(*token);
    if (seen.line == "PUT /v1/pki/sign/openservicemesh") return sign(seen.body);
    return denied();  // the policy of docs/certificates.md allows nothing else
  }

  // Vault words a list of errors in one text.
  static Answer denied() { return refusal(403, "1 error occurred:\n\t* permission denied\n\n"); }

  Answer chain() const {
    return {200, json::serialize(
                     json::object{{"data", {{"certificate", intermediate.pem() + root.pem()}}}})};
  }
  Answer log_in(const json::object& body) {
    if (text_in(body, "role") != "mesh")
      return refusal(400, "invalid role name \"" + text_in(body, "role") + "\"");
    const auto found = logins.find(text_in(body, "jwt"));
    if (found == logins.end()) return denied();
    tokens[found->second] = {std::chrono::hours(1), std::chrono::hours(1)};
    return {200,
            json::serialize(json::object{{"auth",
                                          {{"client_token", found->second},
                                           {"lease_duration", tokens[found->second].left.count()},
                                           {"renewable", true}}}})};
  }
  static Answer look_up(const Token& token) {
    json::object data{{"ttl", token.left.count()}, {"creation_ttl", token.whole.count()}};
    if (token.left.count() != 0) data["renewable"] = token.renewable;
    if (token.periodic) data["period"] = token.whole.count();
    return {200, json::serialize(json::object{{"data", std::move(data)}})};
  }
  static Answer renew(std::pair<const std::string, Token>& held) {
    auto& [text, token] = held;
    if (!token.renewable || token.left.count() == 0) return refusal(400, "lease is not renewable");
    token.left = token.renewed_for;
    return {200, json::serialize(json::object{{"auth",
                                               {{"client_token", text},
                                                {"lease_duration", token.left.count()},
                                                {"renewable", true}}}})};
  }
  Answer sign(const json::object& body) const {
    const openssl::CleanErrorQueue clean;
    const auto request = x509::parse_request(text_in(body, "csr"));
    if (!request.ok())
      return refusal(400, "the \"csr\" field contained no data, or no certificate request");
    const std::string uri = text_in(body, "uri_sans");
    if (!uri.starts_with("spiffe://cluster.local/"))
      return refusal(400,
                     "URI Subject Alternative Names \"" + uri + "\" were not allowed by this role");
    certificate::Subject subject{.common_name = CommonName(text_in(body, "common_name")),
                                 .spiffe_id = SpiffeId(uri)};
    if (const std::string names = text_in(body, "alt_names"); !names.empty())
      subject.dns_names = {names};
    const WallTime now = clock_.wall_now();
    const WallTime end = now + std::chrono::seconds(std::stoll(text_in(body, "ttl")));
    if (end > x509::not_after(*intermediate.certificate))
      return refusal(400,
                     "cannot satisfy request, as TTL would result in notAfter beyond the "
                     "expiration of the CA certificate");
    const auto leaf = x509::make_leaf(subject, *X509_REQ_get0_pubkey(request->get()),
                                      {now - std::chrono::seconds(30), end},
                                      *intermediate.certificate, *intermediate.key)
                          .value();
    // As Vault does, without the last end of line.
    std::string pem = x509::to_pem(*leaf).value();
    pem.pop_back();
    return {200, json::serialize(json::object{
                     {"data", {{"certificate", pem}, {"issuing_ca", intermediate.pem()}}}})};
  }
  static std::string text_in(const json::object& body, const char* name) {
    const json::value* const value = body.if_contains(name);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
  }

  const Clock& clock_;
  const net::TestCa tls_ca_;
  boost::asio::ssl::context context_ = net::server_context(*tls_ca_.issue("IP:127.0.0.1"));
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;
  bool sealed_ = false;

 public:
  Made root;
  Made intermediate;

 private:
  net::ScriptedServer server_{[this](net::Peer& peer) { serve(peer); }};  // last: it uses the rest
};

}  // namespace osm::vault::testing
