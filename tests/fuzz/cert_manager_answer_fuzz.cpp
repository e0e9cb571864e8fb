// The status of a CertificateRequest, which cert-manager, approvers and external issuers write: a
// denied request gives no certificate, one that is there is taken exactly, and the request is
// deleted however it ends.
//
//   input: '0', then the request as the API server has it, in JSON; or '1', then certificates in
//   PEM: a chain, a line "--", and roots.
#include "base/base64.hpp"
#include "base/json.hpp"
#include "cert_manager/requester.hpp"
#include "cert_manager/signer.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/one_object_api.hpp"
#include "fuzz/quiet.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;
using namespace cert_manager;

constexpr std::size_t kMaxError = 2500;

bool holds(const json::object& object, std::string_view type) {
  // The first condition of a type counts: the list is a map by type.
  for (const json::value& one : list_at(map_at(object, "status"), "conditions"))
    if (text_at(one, "type") == type) return text_at(one, "status") == "True";
  return false;
}

void ask(const json::object& object) {
  testing::ManualClock clock;
  testing::ManualExecutor executor(clock);
  RandomRng rng(1);
  QuietLog log;
  QuietMetrics metrics;
  OneObjectApi api;
  api.object = object;
  const IssuerOptions options{.cluster = api,
                              .runtime = {executor, executor, clock, rng, log, metrics},
                              .trust_domain = TrustDomain("cluster.local"),
                              .deadline = std::chrono::seconds(2)};
  Requester requester(options, [&](std::chrono::nanoseconds time) { clock.advance(time); });
  const auto answer = requester.ask({.subject = {}, .request_pem = "a request"});

  require(api.created.size() == 1 && api.removed.size() == 1 &&
              text_at(map_at(api.created[0], "metadata"), "name") == api.removed[0],
          "a request is deleted however it ends");
  require(text_at(map_at(api.created[0], "spec"), "request") == base64("a request"),
          "a request is sent as it is");
  const json::object& status = map_at(object, "status");
  if (answer.ok()) {
    require(!answer->certificate_pem.empty() &&
                base64(answer->certificate_pem) == text_at(status, "certificate") &&
                base64(answer->ca_pem) == text_at(status, "ca"),
            "a certificate is taken exactly");
    require(holds(object, "Ready"), "a certificate is taken when it is ready");
    require(!holds(object, "Denied") && !holds(object, "InvalidRequest"),
            "a request that was denied gives no certificate");
    return;
  }
  const Error& error = answer.error();
  require(error.message.size() <= kMaxError, "a refusal is bounded", error.message);
  require(!holds(object, "Denied") || error.code == ErrorCode::kPermissionDenied,
          "a request that was denied says so", error.message);
}

void find(std::string_view text) {
  constexpr std::string_view kApart = "\n--\n";
  const auto end = std::min(text.find(kApart), text.size());
  const std::string_view chain = text.substr(0, end);
  const std::string_view roots = text.substr(std::min(end + kApart.size(), text.size()));
  const auto signer = find_signer(chain, roots);
  if (!signer.ok()) {
    require(signer.error().code == ErrorCode::kInvalidCertificate, "a refusal says its kind");
    return;
  }
  require(signer->fingerprint.size() == 64, "a signer has a fingerprint");
  const auto again = find_signer(std::string(chain) + '\n' + std::string(roots), roots);
  require(again.ok() && again->fingerprint == signer->fingerprint,
          "a signer does not depend on where its certificate stands");
}

void run(Choices choices) {
  if (choices.flag()) return find(choices.rest());
  const auto object = parse_json_object(choices.rest(), "");
  if (object.ok()) ask(*object);
}

const bool kAdded = add("cert_manager_answer", [](std::string_view input) { run(Choices(input)); });

}  // namespace
