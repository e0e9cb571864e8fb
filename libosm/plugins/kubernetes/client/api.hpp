// The part of the Kubernetes API that this plugin uses: objects of resources, read, written and
// watched.
//
// One implementation talks to a server (api_client); tests use one in memory. Names with OSM_API
// are those that osm::install calls.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "osm/detail/api.hpp"
#include "osm/net/http.hpp"
#include "osm/object.hpp"
#include "osm/result.hpp"
#include "osm/subscription.hpp"

namespace osm::inline v1::kubernetes {

// The API server's names of a kind.
struct OSM_API Resource {
  std::string_view group;  // empty: core
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool namespaced = true;

  GroupKind group_kind() const { return {group, kind}; }
  // "v1", "access.smi-spec.io/v1alpha3"
  std::string api_version() const;
  // "/api/v1/namespaces/shop/pods/web-0/status"; empty parts are left out.
  std::string path(std::string_view ns = {}, std::string_view name = {},
                   std::string_view subresource = {}) const;

  friend bool operator==(const Resource&, const Resource&) = default;
};

// The metadata that every object has; empty: absent.
struct Metadata {
  std::string ns;
  std::string name;
  std::string uid;
  std::string version;  // resourceVersion
};
OSM_API Metadata metadata_of(const boost::json::object& object);

// True if the resource version `have` is `wanted` or a later one of the same kind.
bool not_older(const std::string& have, const std::string& wanted);

// Overwrites the data of the Secret `secret`, and keeps the rest.
OSM_API void erase_data(boost::json::object& secret);

// The members that every object needs; the caller adds the others.
boost::json::object new_object(const Resource& resource, const std::string& ns,
                               const std::string& name, boost::json::object labels);

struct ListRequest {
  Resource resource;
  std::string ns{};  // empty: all
  std::string label_selector{};
  std::string field_selector{};
  std::size_t limit = 500;  // objects in a page; 0: all in one
  std::string continue_token{};
  // The server sends PartialObjectMetadata: no contents of Secrets leave it.
  bool metadata_only = false;
  // The server may answer from its cache, which can be behind, and costs etcd nothing. `limit` may
  // be ignored then.
  bool any_version = false;
  // Called with each item as it arrives, before the answer. If the list fails, the items so far
  // count for nothing. Empty: the items are in ListPage.
  std::function<void(boost::json::object)> on_item{};
};

struct ListPage {
  std::vector<boost::json::object> items;  // each with apiVersion and kind, as in on_item
  std::string resource_version;
  std::string continue_token;  // empty: this was the last page
};

struct WatchRequest {
  Resource resource;
  std::string ns{};
  std::string label_selector{};
  std::string resource_version{};
  std::chrono::seconds timeout{300};  // after which the server ends it
  bool metadata_only = false;         // as in ListRequest
};

enum class WatchEventType { kAdded, kModified, kDeleted, kBookmark };

struct WatchHandler {
  // The server accepted the watch. May be empty.
  std::function<void()> on_open{};
  std::function<void(WatchEventType, boost::json::object)> on_event;
  // The last call, once. Ok: the server ended the watch; watch again from the last version. kGone:
  // list again.
  std::function<void(Status)> on_end;
};

enum class PatchType { kMerge, kApply };

struct Patch {
  PatchType type = PatchType::kMerge;
  std::string body;             // JSON; whoever puts a secret into it erases it
  std::string subresource{};    // "status"
  std::string field_manager{};  // kApply: required
  bool force = false;           // kApply: takes over fields of other owners
};

struct DeleteOptions {
  std::string uid{};  // only the object with this uid
  std::string resource_version{};
};

// A request for something behind the server, such as the HTTP server of a pod.
struct ForwardRequest {
  std::string method = "GET";
  std::string target{};                                        // path and query
  std::vector<std::pair<std::string, std::string>> headers{};  // in addition to the client's own
  std::string body{};                                          // JSON
  std::chrono::milliseconds deadline{30000};
};

// Failure of all calls: kNotFound, kAlreadyExists, kConflict (changed since it was read), kGone
// (that version is too old), kPermissionDenied (401, 403, with the refused operation),
// kInvalidField (422, the server's message), kUnavailable (429, 5xx, unreachable),
// kDeadlineExceeded. The text has the server's Status message.
// Thread: blocking calls on any but an event loop's.
class Api {
 public:
  virtual ~Api() = default;

  // The newest, unless `not_older_than` names a version, or "0" for any: then the server may answer
  // from its cache, which costs etcd nothing.
  virtual Result<boost::json::object> get(const Resource& resource, const std::string& ns,
                                          const std::string& name,
                                          const std::string& not_older_than = {}) = 0;
  // Creates `object`; its metadata has the namespace of a namespaced resource.
  virtual Result<boost::json::object> create(const Resource& resource,
                                             const boost::json::object& object) = 0;
  // Replaces the object if metadata.resourceVersion is its present version, or absent.
  virtual Result<boost::json::object> update(const Resource& resource,
                                             const boost::json::object& object,
                                             const std::string& subresource = {}) = 0;
  virtual Result<boost::json::object> patch(const Resource& resource, const std::string& ns,
                                            const std::string& name, const Patch& patch) = 0;
  virtual Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                        const DeleteOptions& options = {}) = 0;

  // The server's version: "v1.31.1". kUnavailable if there is no server.
  virtual Result<std::string> server_version() {
    return Error{ErrorCode::kUnavailable, "there is no server that has a version"};
  }

  // Result: the answer, whatever its status; the server's own refusals are Status objects.
  virtual Result<net::Response> forward(const ForwardRequest&) {
    return Error{ErrorCode::kUnavailable, "there is no server that passes requests on"};
  }

  // For informers. Callbacks run on the event loop; none after the handle is destroyed.
  virtual Subscription list(const ListRequest& request,
                            std::function<void(Result<ListPage>)> done) = 0;
  virtual Subscription watch(const WatchRequest& request, WatchHandler handler) = 0;
};

// All pages of a list. Failure: the API's; kDeadlineExceeded. Blocking: until the server answers,
// half a minute per page at most; not from an event loop.
OSM_API Result<std::vector<boost::json::object>> list_all(Api& api, ListRequest request);

// Merges `change` into a Secret, if it is still the object `known`, of which the metadata suffice.
// Texts of secrets are erased in `change` and in the answer. Result: the metadata now. Failure,
// blocking: as Api.
Result<Metadata> patch_secret(Api& api, const boost::json::object& known,
                              boost::json::object change);

}  // namespace osm::inline v1::kubernetes
