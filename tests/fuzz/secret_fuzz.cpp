// A Secret as the API server has it → its bytes, and the mesh's CA in it: each is taken exactly or
// refused in words that do not depend on its content, and a CA that is there is never replaced.
//
//   input: '0', then the Secret as JSON; or '1', then bytes to keep in a Secret.
#include "base/base64.hpp"
#include "base/json.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/one_object_api.hpp"
#include "osm/certificate/ca_store.hpp"
#include "osm/testing/manual_clock.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

// `name` as bytes; none: it is no base64.
std::optional<std::string> bytes_at(const json::object& secret, const char* name) {
  return from_base64(text_at(map_at(secret, "data"), name));
}

void require_unquoted(const Error& error, const json::object& secret) {
  require(error.message.size() < 1000, "a refusal is bounded", error.message);
  for (const auto& [name, value] : map_at(secret, "data")) {
    const auto* text = value.if_string();
    if (text == nullptr || text->size() < 24) continue;
    require(error.message.find(std::string_view(*text)) == std::string::npos,
            "a refusal does not quote", error.message);
    const auto bytes = from_base64(*text);
    require(!bytes || error.message.find(*bytes) == std::string::npos, "a refusal does not quote",
            error.message);
  }
}

void read(OneObjectApi& api) {
  const json::object secret = *api.object;
  const auto token = kubernetes::read_secret(api, "shop", "vault-token", "token");
  if (token.ok()) {
    require(!token->empty() && *token == bytes_at(secret, "token").value_or(""),
            "a Secret's bytes are taken exactly");
  } else {
    require_unquoted(token.error(), secret);
  }

  const auto store = kubernetes::make_ca_store(api, "osm-system", "osm-ca-bundle");
  const auto pem = store->load();
  if (pem.ok()) {
    require(pem->has_value(), "a Secret that is there is a CA or a fault");
    require((*pem)->pem() == bytes_at(secret, "ca.crt").value_or("") + '\n' +
                                 bytes_at(secret, "private.key").value_or("") + '\n',
            "a CA is taken exactly");
  } else {
    require_unquoted(pem.error(), secret);
  }
  const testing::ManualClock clock(WallTime(std::chrono::seconds(1798761600)));  // 2027-01-01
  const auto issuer = certificate::load_or_create_ca({*store, TrustDomain("cluster.local"), clock});
  require(issuer.ok() || issuer.error().code != ErrorCode::kNotFound, "a CA is there");
  if (!issuer.ok()) require_unquoted(issuer.error(), secret);
  require(api.created.empty() && api.removed.empty(), "a CA that is there is not replaced");
}

void keep(OneObjectApi& api, const std::string& bytes) {
  const Status created = kubernetes::create_secret(api, {.ns = "shop",
                                                         .name = "kept",
                                                         .labels = {{"app", bytes.substr(0, 63)}},
                                                         .data = {{"token", SecretBytes(bytes)}}});
  require(created.ok() && api.created.size() == 1, "a Secret can be made of any bytes");
  api.object = api.created.front();
  const auto read = kubernetes::read_secret(api, "shop", "kept", "token");
  require(read.ok() ? *read == bytes : bytes.empty(), "a Secret's bytes read back");
}

void run(Choices choices) {
  OneObjectApi api;
  if (choices.flag()) return keep(api, std::string(choices.rest()));
  const auto object = parse_json_object(choices.rest(), "");
  if (!object.ok()) return;
  api.object = *object;
  read(api);
}

const bool kAdded = add("secret", [](std::string_view input) { run(Choices(input)); });

}  // namespace
