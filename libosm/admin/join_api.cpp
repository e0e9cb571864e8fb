// POST /v1/vm/tokens for administrators, and what a machine asks for with such a token.
#include "osm/net/join_api.hpp"

#include <memory>
#include <utility>

#include "admin/admin_json.hpp"
#include "admin/handlers.hpp"
#include "admin/join_tokens.hpp"
#include "admin/vm_bootstrap.hpp"
#include "base/check.hpp"
#include "base/json.hpp"
#include "base/times.hpp"
#include "osm/certificate/kept_certificate.hpp"
#include "osm/certificate/root_rotation.hpp"
#include "osm/net/router.hpp"
#include "osm/providers/drained_machines.hpp"

namespace osm::inline v1::admin {
namespace {

namespace json = boost::json;

constexpr const char* kService = "osm-join";

// With a token's machine, which is found each time.
using Answer = Result<net::Response> (*)(const net::AdminApiOptions&, JoinTokens&,
                                         const net::Request&);

Result<net::Response> join_subject_answer(const net::AdminApiOptions& options, JoinTokens& tokens,
                                          const net::Request& request) {
  OSM_TRY(const json::object body, body_of(request));
  OSM_TRY(const WorkloadName machine, tokens.find(text_at(body, "id"), text_at(body, "secret")));
  return subject_of(options, machine);
}

// The token ends before the certificate is made: of two callers one gets a certificate. A request
// that is refused before leaves the token as it is.
Result<net::Response> join_answer(const net::AdminApiOptions& options, JoinTokens& tokens,
                                  const net::Request& request) {
  OSM_TRY(const json::object body, body_of(request));
  const std::string id = text_at(body, "id");
  const std::string secret = text_at(body, "secret");
  OSM_TRY(const WorkloadName named, tokens.find(id, secret));
  OSM_TRY(check_bootstrap(options, named, body));
  OSM_TRY(const WorkloadName machine, tokens.take(id, secret));
  auto files = bootstrap(options, machine, body, "join token of " + machine.str());
  // kNotReady would have the machine ask again, with a token that is used up.
  if (!files.ok())
    return Error{
        files.error().code == ErrorCode::kNotReady ? ErrorCode::kUnavailable : files.error().code,
        files.error().message +
            "; the token is used up: make another one with `osm vm "
            "token` when this is mended"};
  if (options.drained)
    if (const Status back = options.drained->take_back(machine); !back.ok())
      options.runtime.log.warning(
          "a machine that joined anew may still be drained; run `osm vm drain --undo`",
          {{"workload", machine.str()}, {"detail", back.error().message}});
  return files;
}

}  // namespace

Result<net::Response> vm_token(const net::AdminApiOptions& options, const net::Request& request) {
  if (options.join_tokens == nullptr)
    return Error{ErrorCode::kNotFound,
                 "this controller lets no machines join by token: start it with --join-address (on "
                 "Kubernetes, the chart's value osm.osmController.joinPort)"};
  OSM_TRY(const json::object body, body_of(request));
  OSM_TRY(const WorkloadName machine, machine_of(body));
  OSM_TRY(subject_of(options, machine));  // the machine is known
  JoinTokens tokens(*options.join_tokens, options.runtime.clock);
  OSM_TRY(const JoinToken token,
          tokens.make(machine, std::chrono::seconds(number_at(body, "seconds"))));
  options.runtime.log.info("join token made for a machine",
                           {{"workload", machine.str()}, {"id", token.id}});
  return answer(json::object{{"id", token.id},
                             {"secret", token.secret},
                             {"expires", rfc3339(token.expires)},
                             {"join_port", options.join_port},
                             {"server_name", options.join_server_name},
                             {"roots", options.certificates.trust_bundle_pem()}});
}

}  // namespace osm::inline v1::admin

namespace osm::inline v1::net {

Handler make_join_api(const AdminApiOptions& options) {
  OSM_CHECK(options.join_tokens != nullptr);
  const auto tokens =
      std::make_shared<admin::JoinTokens>(*options.join_tokens, options.runtime.clock);
  const auto route = [&](admin::Answer answer) -> Handler {
    return [options, tokens, answer](const Request& request) {
      Result<Response> response = answer(options, *tokens, request);
      return response.ok() ? *std::move(response) : error_response(response.error());
    };
  };
  return Router()
      .post("/v1/join/subject", route(admin::join_subject_answer))
      .post("/v1/join", route(admin::join_answer));
}

certificate::Subject join_subject(const TrustDomain& domain, const std::string& ns) {
  return certificate::webhook_subject(domain, admin::kService, ns);
}

}  // namespace osm::inline v1::net
