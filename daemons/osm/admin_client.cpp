#include "admin_client.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <vector>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "osm/kubernetes/admin_access.hpp"
#include "osm/net/admin_routes.hpp"
#include "osm/net/http.hpp"
#include "osm/runtime/own_runtime.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr const char* kUsualStateDir = "/var/lib/osm";

struct AdminCall {
  std::string method;
  std::string path;
  std::string target;  // the path with the query
  std::string body;
};

// Explains a transport error by the controller and the flag that names its socket.
Error explained(const Error& error, const std::string& socket) {
  const std::string where = socket + ": ";
  switch (error.code) {
    case ErrorCode::kNotFound:
      return {ErrorCode::kUnavailable,
              where +
                  "no admin socket. Is osm-controller running, and is --state-dir the directory it "
                  "was started with? For a mesh on Kubernetes, name its --kubeconfig"};
    case ErrorCode::kPermissionDenied:
      return {error.code, where + "belongs to another user: run this as the controller's, or root"};
    case ErrorCode::kUnavailable:
      return {error.code, where + "nobody answers (" + error.message +
                              "). osm-controller may have stopped or be starting"};
    case ErrorCode::kDeadlineExceeded:
      return {error.code, where + "no answer in time; --timeout gives it more"};
    default:
      return error.with_context(socket);
  }
}

// A controller of another version may have codes that this command does not know.
ErrorCode code_of(int status, std::string_view text) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code)
    if (error_code_text(static_cast<ErrorCode>(code)) == text) return static_cast<ErrorCode>(code);
  switch (status) {
    case 400:
      return ErrorCode::kInvalidArgument;
    case 401:
    case 403:
      return ErrorCode::kPermissionDenied;
    case 404:
      return ErrorCode::kNotFound;
    default:
      return ErrorCode::kUnavailable;
  }
}

Result<json::value> decode(const net::Response& response, const std::string& where) {
  boost::system::error_code failed;
  json::value answer = json::parse(response.body, failed);
  if (response.status / 100 != 2) return error_in(answer, response.status);
  if (failed) return Error{ErrorCode::kInternal, where + ": the answer is not JSON"};
  return answer;
}

std::string target_of(std::string_view path, Query query) {
  std::string target(path);
  char separator = '?';
  for (const auto& [name, value] : query) {
    target += separator + std::string(name) + '=' + net::encode_query_text(value);
    separator = '&';
  }
  return target;
}

std::string named_state_dir(const MeshFlags& mesh) {
  if (!mesh.state_dir.empty()) return mesh.state_dir;
  const char* named = std::getenv("OSM_STATE_DIR");
  return named ? named : "";
}

// Empty: the cluster's controllers are asked.
std::string chosen_state_dir(const MeshFlags& mesh) {
  const std::string named = named_state_dir(mesh);
  if (!named.empty()) return named;
  std::error_code ignored;
  const bool is_here =
      std::filesystem::exists(std::string(kUsualStateDir) + "/admin.sock", ignored);
  if (!names_cluster(mesh.cluster) && (is_here || !finds_cluster(mesh.cluster)))
    return kUsualStateDir;
  return {};
}

}  // namespace

Error error_in(const json::value& answer, int status) {
  const json::object& error = map_at(answer, "error");
  const std::string code = text_at(error, "code");
  const std::string message = text_at(error, "message");
  if (code.empty() || message.empty())
    return {code_of(status, {}), "the controller answered HTTP " + std::to_string(status)};
  return {code_of(status, code), message};
}

bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kNotReady ||
         error.code == ErrorCode::kDeadlineExceeded;
}

class AdminClient::Controllers {
 public:
  virtual ~Controllers() = default;
  virtual Result<json::value> call(const AdminCall& call) = 0;
};

class AdminClient::Machine final : public Controllers {
 public:
  Machine(const std::string& state_dir, milliseconds timeout)
      : socket_(state_dir + "/admin.sock"), timeout_(timeout) {}

  Result<json::value> call(const AdminCall& call) override {
    net::HttpCall request;
    request.address.unix_path = socket_;
    request.method = call.method;
    request.target = call.target;
    request.body = call.body;
    request.deadline = timeout_;
    Result<net::Response> response = net::http_call(request);
    if (!response.ok()) return explained(response.error(), socket_);
    return decode(*response, socket_);
  }

 private:
  const std::string socket_;
  const milliseconds timeout_;
};

class AdminClient::Mesh final : public Controllers {
 public:
  Mesh(const MeshFlags& flags, milliseconds timeout) : flags_(flags), timeout_(timeout) {}

  Result<json::value> call(const AdminCall& call) override {
    OSM_TRY(const std::vector<kubernetes::RunningPod> replicas, find());
    const net::AdminRoute* route = route_of(call);
    return route ? ask_all(call, *route, replicas) : ask_any(call, replicas);
  }

 private:
  Result<std::vector<kubernetes::RunningPod>> find() {
    if (!access_) {
      OSM_TRY(cluster_, connect(flags_.cluster, runtime_));
      access_ = kubernetes::make_admin_access(*cluster_, flags_.osm_namespace);
    }
    auto replicas = access_->replicas();
    if (replicas.ok() || replicas.error().code != ErrorCode::kNotFound) return replicas;
    return Error{ErrorCode::kUnavailable, replicas.error().message};
  }

  Result<json::value> ask(const AdminCall& call, const std::string& replica) {
    OSM_TRY(const net::Response response, access_->ask(replica, {.method = call.method,
                                                                 .target = call.target,
                                                                 .body = call.body,
                                                                 .deadline = timeout_}));
    return decode(response, flags_.osm_namespace + '/' + replica);
  }

  // The route of a call of which each controller knows a part; null: of another one.
  const net::AdminRoute* route_of(const AdminCall& call) const {
    const auto route = std::find_if(routes_.begin(), routes_.end(), [&](const auto& each) {
      return each.method == call.method && each.path == call.path;
    });
    return route == routes_.end() || route->merge == net::AdminMerge::kFirst ? nullptr : &*route;
  }

  // The first that knows: a proxy, and its certificate, is one controller's.
  Result<json::value> ask_any(const AdminCall& call,
                              const std::vector<kubernetes::RunningPod>& replicas) {
    std::optional<Error> error;
    for (const auto& replica : replicas) {
      auto answer = ask(call, replica.name);
      if (answer.ok()) return answer;
      // An answer of a controller says more than that another one is away.
      if (!error || may_pass(*error)) error = answer.error();
      if (answer.error().code != ErrorCode::kNotFound &&
          answer.error().code != ErrorCode::kNotReady &&
          answer.error().code != ErrorCode::kUnavailable)
        return answer;
    }
    return *error;
  }

  Result<json::value> ask_all(const AdminCall& call, const net::AdminRoute& route,
                              const std::vector<kubernetes::RunningPod>& replicas) {
    std::vector<net::ReplicaAnswer> answers;
    json::array unanswered;
    std::optional<Error> error;
    for (const auto& replica : replicas) {
      auto answer = ask(call, replica.name);
      if (answer.ok()) {
        answers.push_back({replica.name, json::serialize(*answer)});
        continue;
      }
      if (!may_pass(answer.error())) return answer;
      error = answer.error();
      unanswered.emplace_back(replica.name);
      std::cerr << "osm: " << escape_controls(error->message, "\\x")
                << ". The answer lacks what this controller knows\n";
    }
    if (answers.empty()) return *error;
    json::value joined = json::parse(net::join_answers(route, answers));
    if (!unanswered.empty()) joined.as_object()["unanswered"] = std::move(unanswered);
    return joined;
  }

  const MeshFlags flags_;
  const milliseconds timeout_;
  const std::vector<net::AdminRoute> routes_ = net::admin_routes();
  OwnRuntime runtime_{{.least = LogLevel::kError}};
  std::unique_ptr<kubernetes::Cluster> cluster_;
  std::unique_ptr<kubernetes::AdminAccess> access_;
};

AdminClient::AdminClient(const MeshFlags& mesh, milliseconds timeout) {
  const std::string state_dir = chosen_state_dir(mesh);
  local_ = !state_dir.empty();
  if (!local_)
    controllers_ = std::make_unique<Mesh>(mesh, timeout);
  else
    controllers_ = std::make_unique<Machine>(state_dir, timeout);
}

AdminClient::~AdminClient() = default;

Result<json::value> AdminClient::get(std::string_view path, Query query) const {
  return controllers_->call({"GET", std::string(path), target_of(path, query), ""});
}

Result<json::value> AdminClient::post(std::string_view path, Query query,
                                      const json::value& body) const {
  return controllers_->call({"POST", std::string(path), target_of(path, query),
                             body.is_null() ? "" : json::serialize(body)});
}

}  // namespace osm::cli
