// The caller's side: a token for one controller, and the request through the API server.
#include "kubernetes/client/admin_access.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <utility>

#include "base/json.hpp"
#include "kubernetes/client/api_status.hpp"
#include "kubernetes/client/resources.hpp"
#include "osm/kubernetes/admin_access.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;

constexpr int kTokenSeconds = 600;  // the API server issues none for less

bool is_ready(const json::object& pod) {
  for (const json::value& condition : list_at(map_at(pod, "status"), "conditions"))
    if (text_at(condition, "type") == "Ready") return text_at(condition, "status") == "True";
  return false;
}

class ForwardedAccess final : public AdminAccess {
 public:
  ForwardedAccess(Cluster& cluster, std::string ns) : cluster_(cluster), ns_(std::move(ns)) {}

  Result<std::vector<RunningPod>> replicas() override {
    OSM_TRY(auto replicas, list_running(cluster_, ns_, "osm-controller"));
    if (!replicas.empty()) return replicas;
    return Error{ErrorCode::kNotFound, "no pod of osm-controller runs in namespace " + ns_ +
                                           " of " + cluster_.server() +
                                           "; --osm-namespace names another one"};
  }

  Result<net::Response> ask(const std::string& replica, const AdminRequest& request) override {
    const auto key = std::pair(replica, std::string(admin_account(request.method)));
    const bool kept = tokens_.contains(key);
    auto response = ask_once(key, request);
    // A kept token ends after ten minutes, and with the ServiceAccount.
    if (!response.ok() || response->status != 403) return response;
    tokens_.erase(key);
    return kept ? ask_once(key, request) : response;
  }

 private:
  using Key = std::pair<std::string, std::string>;  // pod, account

  Result<net::Response> ask_once(const Key& key, const AdminRequest& request) {
    const std::string& replica = key.first;
    const std::string what = "ask pod " + ns_ + '/' + replica;
    OSM_TRY(const std::string token, token_for(key));
    ForwardRequest forward;
    forward.method = request.method;
    forward.target =
        kPods.path(ns_, "https:" + replica + ':' + std::to_string(kAdminPort), "proxy") +
        request.target;
    forward.headers = {{std::string(kAdminTokenHeader), token}};
    forward.body = request.body;
    forward.deadline = request.deadline;
    OSM_TRY(net::Response response, cluster_.api().forward(forward));
    if (!is_from_server(response)) return response;
    Error error = error_of_response(response, what);
    if (error.code == ErrorCode::kPermissionDenied) error.message += remedy(key.second);
    if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kUnavailable;  // it has ended
    return error;
  }

  // True if the API server answered, and not the controller.
  static bool is_from_server(const net::Response& response) {
    if (response.status < 300) return false;
    const auto body = parse_json_object(response.body, "the answer");
    return !body.ok() || text_at(*body, "kind") == "Status";
  }

  Result<std::string> token_for(const Key& key) {
    if (const auto kept = tokens_.find(key); kept != tokens_.end()) return kept->second;
    const auto& [replica, account] = key;
    const std::string what = "create a token of ServiceAccount " + ns_ + '/' + account;
    const json::object request{{"apiVersion", "authentication.k8s.io/v1"},
                               {"kind", "TokenRequest"},
                               {"spec",
                                {{"audiences", json::array{admin_audience(ns_, replica)}},
                                 {"expirationSeconds", kTokenSeconds}}}};
    ForwardRequest post;
    post.method = "POST";
    post.target = kServiceAccounts.path(ns_, account, "token");
    post.body = json::serialize(request);
    OSM_TRY(const net::Response response, cluster_.api().forward(post));
    if (response.status >= 300) {
      Error error = error_of_response(response, what);
      if (error.code == ErrorCode::kPermissionDenied) error.message += remedy(account);
      return error;
    }
    OSM_TRY(const json::object answer, parse_json_object(response.body, what + ": the answer"));
    std::string token = text_at(map_at(answer, "status"), "token");
    if (token.empty())
      return Error{ErrorCode::kUnavailable, what + ": the answer of the API server has none"};
    return tokens_[key] = std::move(token);
  }

  // The Role has the account's name.
  std::string remedy(const std::string& account) const {
    return ". The Role " + account + " permits it: kubectl create rolebinding NAME -n " + ns_ +
           " --role=" + account + " --user=USER";
  }

  Cluster& cluster_;
  const std::string ns_;
  std::map<Key, std::string> tokens_;
};

}  // namespace

Result<std::vector<RunningPod>> list_running(Cluster& cluster, const std::string& osm_namespace,
                                             const std::string& deployment) {
  OSM_TRY(const auto pods, list_all(cluster.api(), {.resource = kPods,
                                                    .ns = osm_namespace,
                                                    .label_selector = "app=" + deployment}));
  std::vector<RunningPod> running;
  for (const json::object& pod : pods) {
    const bool ends = member(map_at(pod, "metadata"), "deletionTimestamp") != nullptr;
    if (!ends && text_at(map_at(pod, "status"), "phase") == "Running")
      running.push_back({text_at(map_at(pod, "metadata"), "name"), is_ready(pod)});
  }
  std::stable_partition(running.begin(), running.end(),
                        [](const RunningPod& pod) { return pod.ready; });
  return running;
}

std::unique_ptr<AdminAccess> make_admin_access(Cluster& cluster, std::string osm_namespace) {
  return std::make_unique<ForwardedAccess>(cluster, std::move(osm_namespace));
}

}  // namespace osm::inline v1::kubernetes
