// The Vault under test: the fake one, or the one that OSM_CONTRACT_VAULT (HOST:PORT) names, set up
// as docs/certificates.md says. See README.md for the other settings.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "base/base64.hpp"
#include "contract/setting.hpp"
#include "net/scripted_server.hpp"
#include "osm/net/http_client.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/thread_executor.hpp"
#include "vault/fake_vault.hpp"

namespace osm::contract {

namespace json = boost::json;

struct VaultAnswer {
  int status = 0;
  json::object body;

  const json::object& map(const char* name) const {
    REQUIRE_MESSAGE(body.contains(name), json::serialize(body));
    return body.at(name).as_object();
  }
  // Every text of "errors".
  std::string errors() const {
    std::string all;
    if (const json::value* const errors = body.if_contains("errors"))
      for (const json::value& each : errors->as_array())
        all.append(json::value_to<std::string>(each)).append("\n");
    return all;
  }
};

struct NewToken {
  std::chrono::seconds life = std::chrono::hours(1);
  bool renewable = true;
  bool periodic = false;
};

class VaultServer {
 public:
  virtual ~VaultServer() = default;
  virtual WallTime now() const = 0;
  // A token with the policy of docs/certificates.md.
  virtual std::string make_token(const NewToken& wanted = {}) = 0;
  virtual std::string endless_token() = 0;
  virtual void revoke(const std::string& token) = 0;
  virtual void seal() = 0;
  virtual void unseal() = 0;
  // Makes Kubernetes auth take `jwt` for its role "mesh".
  virtual std::string make_jwt() = 0;

  // A PUT if `body` has members, else a GET: as plugins/vault asks.
  VaultAnswer ask(const std::string& path, const std::string& token = "",
                  const json::object& body = {}) {
    return send(path, token, body.empty() ? "" : json::serialize(body));
  }
  VaultAnswer send(const std::string& path, const std::string& token, const std::string& body) {
    net::HttpRequest request{
        .method = body.empty() ? "GET" : "PUT",
        .target = "/v1/" + path,
        .headers = {{"Accept", "application/json"}, {"X-Vault-Request", "true"}},
        .body = body};
    if (!token.empty()) request.headers.emplace_back("X-Vault-Token", token);
    if (!body.empty()) request.headers.emplace_back("Content-Type", "application/json");
    const auto response = client_->call(request);
    REQUIRE_MESSAGE(response.ok(), response.error().text());
    VaultAnswer answer{response->status, {}};
    boost::system::error_code fault;
    const json::value value = json::parse(response->body, fault);
    if (!response->body.empty()) {
      REQUIRE_MESSAGE((!fault && value.is_object()), response->body);
      answer.body = value.get_object();
    }
    return answer;
  }

 protected:
  void connect(const net::Address& address, const std::string& ca_pem) {
    net::HttpClientOptions options{.address = address};
    options.tls = [ca_pem]() -> Result<net::ClientTls> {
      net::ClientTls tls;
      tls.trusted_pem = ca_pem;
      return tls;
    };
    client_ = net::HttpClient::create(std::move(options), io_.executor());
  }
  void disconnect() { client_.reset(); }

 private:
  net::Threads io_{1};
  std::unique_ptr<net::HttpClient> client_;
};

class FakeVaultServer final : public VaultServer {
 public:
  FakeVaultServer() { connect(vault_.address(), vault_.tls_ca().root_pem()); }
  ~FakeVaultServer() override { disconnect(); }

  WallTime now() const override { return clock_.wall_now(); }
  std::string make_token(const NewToken& wanted) override {
    return put({.left = wanted.life,
                .whole = wanted.life,
                .renewable = wanted.renewable,
                .periodic = wanted.periodic});
  }
  std::string endless_token() override { return put({}); }
  void revoke(const std::string& token) override {
    const auto held = vault_.lock();
    vault_.tokens.erase(token);
  }
  void seal() override { vault_.set_sealed(true); }
  void unseal() override { vault_.set_sealed(false); }
  std::string make_jwt() override {
    const auto held = vault_.lock();
    vault_.logins["the.jwt.mesh"] = "hvs.of-the-jwt";
    return "the.jwt.mesh";
  }

 private:
  std::string put(const vault::testing::Token& token) {
    const auto held = vault_.lock();
    const std::string text = "hvs.token-" + std::to_string(++last_);
    vault_.tokens[text] = token;
    return text;
  }

  testing::ManualClock clock_;
  vault::testing::FakeVault vault_{clock_};
  int last_ = 0;
};

// Answers Vault's TokenReviews in place of an API server: every token is the controller's.
class TokenReviewer {
 public:
  std::string url() const { return "http://" + server_.address().str(); }

 private:
  static void serve(net::Peer& peer) {
    const json::object answer{
        {"apiVersion", "authentication.k8s.io/v1"},
        {"kind", "TokenReview"},
        {"status",
         {{"authenticated", true},
          {"user",
           {{"username", "system:serviceaccount:osm-system:osm-controller"}, {"uid", "1"}}}}}};
    while (!peer.next_request().empty()) {
      const std::string body = json::serialize(answer);
      peer.send("HTTP/1.1 201 x\r\nContent-Type: application/json\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    }
  }

  net::ScriptedServer server_{serve};
};

class RealVaultServer final : public VaultServer {
 public:
  explicit RealVaultServer(const std::string& address)
      : root_token_(required_setting("OSM_CONTRACT_VAULT_ROOT_TOKEN")) {
    connect(net::parse_address(address).value(),
            read_text(required_setting("OSM_CONTRACT_VAULT_CA_FILE")));
  }
  ~RealVaultServer() override { disconnect(); }

  WallTime now() const override { return SystemClock().wall_now(); }
  std::string make_token(const NewToken& wanted) override {
    const std::string life = std::to_string(wanted.life.count()) + "s";
    json::object body{{"policies", json::array{"openservicemesh"}},
                      {"no_default_policy", true},
                      {"no_parent", true},
                      {"renewable", wanted.renewable}};
    body[wanted.periodic ? "period" : "ttl"] = life;
    const VaultAnswer made = ask("auth/token/create", root_token_, body);
    REQUIRE_MESSAGE(made.status == 200, made.errors());
    return json::value_to<std::string>(made.map("auth").at("client_token"));
  }
  std::string endless_token() override { return root_token_; }
  void revoke(const std::string& token) override {
    administer("auth/token/revoke", {{"token", token}});
  }
  void seal() override { administer("sys/seal", {{"x", ""}}); }
  void unseal() override {
    administer("sys/unseal", {{"key", required_setting("OSM_CONTRACT_VAULT_UNSEAL_KEY")}});
    REQUIRE(testing::wait_until([&] { return ask("sys/health").status == 200; }));
  }
  std::string make_jwt() override {
    administer("sys/auth/kubernetes", {{"type", "kubernetes"}});
    administer("auth/kubernetes/config",
               {{"kubernetes_host", reviewer_.url()},
                // Asked for in any case; the reviewer speaks plain HTTP.
                {"kubernetes_ca_cert", read_text(required_setting("OSM_CONTRACT_VAULT_CA_FILE"))},
                {"token_reviewer_jwt", jwt()},
                {"disable_local_ca_jwt", true}});
    administer("auth/kubernetes/role/mesh", {{"policies", "openservicemesh"},
                                             {"ttl", "1h"},
                                             {"bound_service_account_names", "osm-controller"},
                                             {"bound_service_account_namespaces", "osm-system"}});
    return jwt();
  }

 private:
  void administer(const std::string& path, const json::object& body) {
    const VaultAnswer done = ask(path, root_token_, body);
    REQUIRE_MESSAGE((done.status == 200 || done.status == 204), path, ": ", done.errors());
  }

  // Unsigned: the reviewer takes every token.
  static std::string jwt() {
    constexpr const char* kAccount = "kubernetes.io/serviceaccount/";
    const json::object claims{{"iss", "kubernetes/serviceaccount"},
                              {"sub", "system:serviceaccount:osm-system:osm-controller"},
                              {std::string(kAccount) + "namespace", "osm-system"},
                              {std::string(kAccount) + "service-account.name", "osm-controller"},
                              {std::string(kAccount) + "service-account.uid", "1"}};
    return base64_url(R"({"alg":"RS256","typ":"JWT"})") + '.' +
           base64_url(json::serialize(claims)) + '.' + base64_url("signature");
  }
  static std::string base64_url(const std::string& text) {
    std::string out = base64(text);
    std::replace(out.begin(), out.end(), '+', '-');
    std::replace(out.begin(), out.end(), '/', '_');
    std::erase(out, '=');
    return out;
  }

  const std::string root_token_;
  TokenReviewer reviewer_;
};

inline std::unique_ptr<VaultServer> make_vault() {
  if (const auto address = setting("OSM_CONTRACT_VAULT"))
    return std::make_unique<RealVaultServer>(*address);
  return std::make_unique<FakeVaultServer>();
}

}  // namespace osm::contract
