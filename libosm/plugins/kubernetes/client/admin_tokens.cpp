// The controller's side: every request to the admin API shows a token.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <optional>

#include "base/json.hpp"
#include "kubernetes/client/admin_access.hpp"
#include "osm/kubernetes/admin_access.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

// Longer ones are not the API server's: it is not asked about them.
constexpr std::size_t kMaxTokenBytes = 8 * 1024;

Error refused(const std::string& why) { return {ErrorCode::kPermissionDenied, why}; }

// Result: the user of the token, if the API server issued it for `audience`.
Result<std::string> user_of(Api& api, std::string_view token, const std::string& audience) {
  OSM_TRY(const json::object review,
          api.create(kTokenReviews,
                     {{"apiVersion", kTokenReviews.api_version()},
                      {"kind", kTokenReviews.kind},
                      {"spec", {{"token", token}, {"audiences", json::array{audience}}}}}));
  const json::object& status = map_at(review, "status");
  const json::array& audiences = list_at(status, "audiences");
  if (!bool_at(status, "authenticated").value_or(false) ||
      std::find(audiences.begin(), audiences.end(), json::value(audience)) == audiences.end())
    return refused("the API server does not accept the token for this controller");
  return text_at(map_at(status, "user"), "username");
}

// Result: the user who asks.
Result<std::string> admit(const AdminTokenOptions& options, const net::Request& request) {
  const std::string_view token = request.header(kAdminTokenHeader);
  if (token.empty() || token.size() > kMaxTokenBytes)
    return refused("no token in the header " + std::string(kAdminTokenHeader));
  OSM_TRY(const std::string user, user_of(options.cluster.api(), token,
                                          admin_audience(options.osm_namespace, options.replica)));
  const std::string accounts = "system:serviceaccount:" + options.osm_namespace + ':';
  const std::string_view needed = admin_account(request.method);
  if (user == accounts + std::string(kAdmin) || user == accounts + std::string(needed)) return user;
  return refused(user + " may not do this; a token of ServiceAccount " + options.osm_namespace +
                 '/' + std::string(needed) + " is needed");
}

}  // namespace

net::HeadCheck require_admin_token(const AdminTokenOptions& options) {
  return [options](net::Request& head) -> std::optional<net::Response> {
    const auto user = admit(options, head);
    if (!user.ok()) return net::error_response(user.error());
    head.client = *user + " through " + head.client;  // for the audit log
    return std::nullopt;
  };
}

}  // namespace osm::inline v1::kubernetes
