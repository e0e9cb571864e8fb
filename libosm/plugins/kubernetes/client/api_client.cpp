#include "kubernetes/client/api_client.hpp"

#include <strings.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <mutex>
#include <thread>
#include <utility>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "kubernetes/client/api_status.hpp"
#include "kubernetes/client/list_decoder.hpp"
#include "kubernetes/client/watch_decoder.hpp"
#include "osm/detail/call_gate.hpp"
#include "osm/net/http.hpp"

namespace osm::inline v1::kubernetes {
namespace {

namespace json = boost::json;
constexpr Counter kKubernetesRequests{"osm_kubernetes_requests_total",
                                      "Requests to the API server, by verb and code",
                                      {"verb", "code"}};

using std::chrono::seconds;

constexpr std::string_view kFieldManager = "osm";
constexpr const char* kMetadataList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
constexpr const char* kMetadataEvents =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
constexpr const char* kAnswer = ": the server's answer";
constexpr auto kListDeadline = seconds(60);
constexpr int kMaxAttempts = 3;
constexpr auto kMaxSleep = seconds(2);   // of a thread; the caller of a longer one tries again
constexpr auto kMaxPause = seconds(60);  // of a list or watch
constexpr std::size_t kMaxErrorBytes = 64 * 1024;
constexpr std::size_t kMaxListBytes = 1024 * 1024 * 1024;

class Query {
 public:
  Query& add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    text_.append(text_.empty() ? "?" : "&").append(name).append("=");
    text_ += net::encode_query_text(value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string name_of(const Resource& resource, const std::string& ns, const std::string& name) {
  return std::string(resource.kind) + ' ' + (ns.empty() ? "" : ns + '/') + name;
}

seconds retry_after(const net::Response& response) {
  for (const auto& [name, value] : response.headers) {
    if (::strcasecmp(name.c_str(), "retry-after") != 0) continue;
    return seconds(std::max(number_of<int>(value).value_or(0), 0));
  }
  return seconds(1);
}

// A request that is answered later. The handle given out closes the gate.
struct Operation {
  std::string what;  // "list pods of namespace shop"
  net::HttpRequest request;
  std::function<Subscription(const std::shared_ptr<Operation>&)> send;
  std::function<void(const Error&)> fail;  // called if there is no token to send it with
  detail::CallGate gate;
  std::string token;         // of the last attempt
  bool tried_again = false;  // with another token
  int throttled = 0;         // answers that asked for a pause
  std::mutex mutex;          // over `sent`
  Subscription sent;
};

Subscription handle_of(std::shared_ptr<Operation> operation) {
  void* address = operation.get();
  return Subscription(std::shared_ptr<void>(address, [operation](void*) {
    operation->gate.close();
    Subscription sent;  // destroyed without the lock: it waits for a callback
    std::lock_guard lock(operation->mutex);
    sent = std::move(operation->sent);
  }));
}

class ApiClient final : public Api {
 public:
  explicit ApiClient(const ApiClientOptions& options)
      : base_path_(options.base_path),
        http_(options.http),
        credentials_(options.credentials),
        blocking_(options.blocking),
        metrics_(options.metrics) {}

  Result<json::object> get(const Resource& resource, const std::string& ns, const std::string& name,
                           const std::string& not_older_than) override {
    return call("GET",
                resource.path(ns, name) + Query().add("resourceVersion", not_older_than).text(), "",
                "", "get " + name_of(resource, ns, name));
  }

  Result<json::object> create(const Resource& resource, const json::object& object) override {
    const auto [ns, name, uid, version] = metadata_of(object);
    return call("POST", resource.path(ns) + manager_query(), json::serialize(object),
                "application/json", "create " + name_of(resource, ns, name));
  }

  Result<json::object> update(const Resource& resource, const json::object& object,
                              const std::string& subresource) override {
    const auto [ns, name, uid, version] = metadata_of(object);
    return call("PUT", resource.path(ns, name, subresource) + manager_query(),
                json::serialize(object), "application/json",
                "update " + name_of(resource, ns, name));
  }

  Result<json::object> patch(const Resource& resource, const std::string& ns,
                             const std::string& name, const Patch& patch) override {
    Query query;
    query.add("fieldManager", patch.field_manager.empty() ? kFieldManager : patch.field_manager);
    std::string_view type = "application/merge-patch+json";
    if (patch.type == PatchType::kApply) {
      type = "application/apply-patch+yaml";  // JSON is YAML
      if (patch.force) query.add("force", "true");
    }
    return call(
        "PATCH", resource.path(ns, name, patch.subresource) + query.text(), patch.body, type,
        (patch.type == PatchType::kApply ? "apply " : "patch ") + name_of(resource, ns, name));
  }

  Status remove(const Resource& resource, const std::string& ns, const std::string& name,
                const DeleteOptions& options) override {
    json::object preconditions;
    if (!options.uid.empty()) preconditions["uid"] = options.uid;
    if (!options.resource_version.empty())
      preconditions["resourceVersion"] = options.resource_version;
    std::string body;
    if (!preconditions.empty())
      body = json::serialize(json::object{{"apiVersion", "v1"},
                                          {"kind", "DeleteOptions"},
                                          {"preconditions", std::move(preconditions)}});
    const auto answer = call("DELETE", resource.path(ns, name), std::move(body), "application/json",
                             "delete " + name_of(resource, ns, name));
    if (!answer.ok()) return answer.error();
    return {};
  }

  Result<std::string> server_version() override {
    OSM_TRY(const json::object version,
            call("GET", "/version", "", "", "get the server's version"));
    return text_at(version, "gitVersion");
  }

  Result<net::Response> forward(const ForwardRequest& forwarded) override {
    net::HttpRequest request = prepare(forwarded.method, forwarded.target);
    request.headers.insert(request.headers.end(), forwarded.headers.begin(),
                           forwarded.headers.end());
    if (!forwarded.body.empty()) request.headers.emplace_back("Content-Type", "application/json");
    request.body = forwarded.body;
    request.deadline = forwarded.deadline;
    return send(request, "forward");
  }

  Subscription list(const ListRequest& request,
                    std::function<void(Result<ListPage>)> done) override {
    Query query;
    query.add("labelSelector", request.label_selector)
        .add("fieldSelector", request.field_selector)
        .add("limit", request.limit == 0 ? "" : std::to_string(request.limit))
        .add("continue", request.continue_token)
        .add("resourceVersion", request.any_version && request.continue_token.empty() ? "0" : "");
    auto operation = operation_of("list", request, query);
    operation->request.deadline = kListDeadline;
    operation->request.gzip = true;
    operation->request.max_response_bytes = kMaxListBytes;
    if (request.metadata_only) operation->request.headers.front().second = kMetadataList;
    operation->fail = done;
    operation->send = [this, resource = request.resource, on_item = request.on_item,
                       done = std::move(done)](const std::shared_ptr<Operation>& sent) {
      return open_list(sent, resource, on_item, done);
    };
    start(operation);
    return handle_of(std::move(operation));
  }

  Subscription watch(const WatchRequest& request, WatchHandler handler) override {
    Query query;
    query.add("watch", "1")
        .add("allowWatchBookmarks", "true")
        .add("resourceVersion", request.resource_version)
        .add("timeoutSeconds", std::to_string(request.timeout.count()))
        .add("labelSelector", request.label_selector);
    auto operation = operation_of("watch", request, query);
    if (request.metadata_only) operation->request.headers.front().second = kMetadataEvents;
    operation->fail = handler.on_end;
    operation->send = [this, handler = std::move(handler)](const std::shared_ptr<Operation>& sent) {
      return open_watch(sent, handler);
    };
    start(operation);
    return handle_of(std::move(operation));
  }

 private:
  static std::string manager_query() { return Query().add("fieldManager", kFieldManager).text(); }

  net::HttpRequest prepare(std::string_view method, const std::string& target) const {
    net::HttpRequest request;
    request.method = method;
    request.target = base_path_ + target;
    request.headers = {{"Accept", "application/json"}, {"User-Agent", "osm"}};
    return request;
  }

  static void set_token(net::HttpRequest& request, const std::string& token) {
    std::erase_if(request.headers,
                  [](const auto& header) { return header.first == "Authorization"; });
    if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
  }

  void count(std::string_view verb, const Result<net::Response>& response) {
    count(verb, response.ok() ? std::to_string(response->status)
                              : std::string(error_code_text(response.error().code)));
  }
  void count(std::string_view verb, const std::string& code) {
    metrics_.add(kKubernetesRequests, {{"verb", verb}, {"code", code}}, 1);
  }

  // Blocking calls.

  Result<json::object> call(std::string_view method, const std::string& target, std::string body,
                            std::string_view content_type, const std::string& what) {
    net::HttpRequest request = prepare(method, target);
    if (!body.empty()) request.headers.emplace_back("Content-Type", content_type);
    request.body = std::move(body);
    const EraseOnExit erased(request.body);  // of a Secret, it may be
    auto response = send(request, std::string_view(what).substr(0, what.find(' ')));
    if (!response.ok()) return response.error().with_context(what);
    const EraseOnExit answer(response->body);
    if (response->status < 300) return parse_json_object(response->body, what + kAnswer);
    return error_of_response(*response, what);
  }

  // Tries again with another token after a 401, and later after a 429.
  Result<net::Response> send(net::HttpRequest& request, std::string_view verb) {
    bool new_token = false;
    for (int attempt = 1;; ++attempt) {
      OSM_TRY(const std::string token, credentials_->token());
      set_token(request, token);
      auto response = http_.call(request);
      count(verb, response);
      if (!response.ok()) return response;
      if (response->status == 401) credentials_->refused(token);
      if (response->status == 401 && !std::exchange(new_token, true)) {
        const auto next = credentials_->token();
        if (next.ok() && *next != token) continue;
      }
      if (response->status != 429 || attempt == kMaxAttempts) return response;
      const seconds pause = retry_after(*response);
      if (pause > kMaxSleep) return response;
      std::this_thread::sleep_for(pause);
    }
  }

  // Asynchronous calls.

  // Request is a ListRequest or a WatchRequest.
  template <class Request>
  std::shared_ptr<Operation> operation_of(const std::string& verb, const Request& request,
                                          const Query& query) const {
    auto operation = std::make_shared<Operation>();
    operation->what = verb + ' ' + std::string(request.resource.plural) +
                      (request.ns.empty() ? "" : " of namespace " + request.ns);
    operation->request = prepare("GET", request.resource.path(request.ns) + query.text());
    return operation;
  }

  // Sends the request with a token; a plugin that must run for it runs on `blocking`.
  void start(const std::shared_ptr<Operation>& operation) {
    const auto proceed = [operation](const Result<std::string>& token) {
      if (!token.ok()) return operation->fail(token.error().with_context(operation->what));
      operation->token = *token;
      set_token(operation->request, *token);
      operation->gate.run([&] {
        Subscription former;
        std::lock_guard lock(operation->mutex);
        former = std::exchange(operation->sent, operation->send(operation));
      });
    };
    const auto known = credentials_->token_at_hand();
    if (known && known->ok()) return proceed(*known);
    // `this` may be destroyed when the plugin ends; then the operation was cancelled.
    blocking_.post([operation, proceed, credentials = credentials_] {
      const auto token = credentials->token();
      operation->gate.run([&] { proceed(token); });
    });
  }

  // True if the token was refused and there is another one now: the request is sent again.
  bool again_with_new_token(const std::shared_ptr<Operation>& operation, int status) {
    if (status != 401) return false;
    credentials_->refused(operation->token);
    if (std::exchange(operation->tried_again, true)) return false;
    const auto next = credentials_->token_at_hand();
    if (next && next->ok() && **next == operation->token) return false;
    start(operation);
    return true;
  }

  // True if the server asked for a pause: the request is sent again after it.
  bool again_after_pause(const std::shared_ptr<Operation>& operation,
                         const net::Response& response) {
    if (response.status != 429 || ++operation->throttled == kMaxAttempts) return false;
    operation->gate.run([&] {
      Subscription former;
      std::lock_guard lock(operation->mutex);
      former = std::exchange(
          operation->sent,
          blocking_.post_after(std::min(retry_after(response), kMaxPause), [this, operation] {
            operation->gate.run([&] { start(operation); });
          }));
    });
    return true;
  }

  // A response that is read as it comes. Callbacks run one at a time, and none after the operation
  // was cancelled.
  struct Reading {
    std::string_view verb;
    std::function<void()> on_open;                    // the server accepted the request
    std::function<Status(std::string_view)> on_data;  // a failure ends it
    std::function<void(const Status&)> on_end;        // the last call, once
  };
  struct Stream {
    explicit Stream(Reading how) : reading(std::move(how)) {}

    const Reading reading;
    net::Response head{};
    std::string error_body{};
    bool opened = false;
    std::atomic<bool> over = false;  // also set by the thread of `deadline`
    Subscription deadline{};

    void end(const Status& status) {
      if (!over.exchange(true)) reading.on_end(status);
    }
  };

  Subscription open(const std::shared_ptr<Operation>& operation,
                    const std::shared_ptr<Stream>& stream) {
    net::HttpStreamEvents events;
    events.on_head = [this, operation, stream](const net::Response& head) {
      operation->gate.run([&] {
        count(stream->reading.verb, std::to_string(head.status));
        stream->head = head;
        stream->opened = true;
        if (head.status < 300 && stream->reading.on_open) stream->reading.on_open();
      });
    };
    events.on_data = [operation, stream](std::string_view data) {
      operation->gate.run([&] {
        if (stream->over) return;
        if (stream->head.status >= 300) {
          if (stream->error_body.size() < kMaxErrorBytes) stream->error_body.append(data);
          return;
        }
        if (const Status fed = stream->reading.on_data(data); !fed.ok()) stream->end(fed);
      });
    };
    events.on_end = [this, operation, stream](const Status& status) {
      operation->gate.run([&] {
        if (!status.ok()) {
          if (!stream->opened)
            count(stream->reading.verb, std::string(error_code_text(status.error().code)));
          return stream->end(status.error().with_context(operation->what));
        }
        if (stream->head.status < 300) return stream->end({});
        if (!stream->over && (again_with_new_token(operation, stream->head.status) ||
                              again_after_pause(operation, stream->head))) {
          stream->over = true;
          return;
        }
        stream->head.body = std::move(stream->error_body);
        stream->end(error_of_response(stream->head, operation->what));
      });
    };
    return http_.open_stream(operation->request, std::move(events));
  }

  Subscription open_list(const std::shared_ptr<Operation>& operation, const Resource& resource,
                         const std::function<void(json::object)>& on_item,
                         const std::function<void(Result<ListPage>)>& done) {
    struct List {
      ListDecoder decoder;
      ListPage page{};
    };
    const auto list = std::make_shared<List>(List{ListDecoder(operation->what)});
    const auto take = [operation, list, resource, on_item](json::object item) {
      // Items of lists of built-in kinds have neither kind nor apiVersion.
      item["apiVersion"] = resource.api_version();
      item["kind"] = resource.kind;
      if (on_item) {
        on_item(std::move(item));
      } else {
        list->page.items.push_back(std::move(item));
      }
      return operation->gate.run([] {});  // false: cancelled
    };
    const auto stream = std::make_shared<Stream>(Reading{
        .verb = "list",
        .on_open = {},
        .on_data = [list, take](std::string_view data) { return list->decoder.feed(data, take); },
        .on_end =
            [list, done](const Status& status) {
              if (!status.ok()) return done(status.error());
              const auto around = list->decoder.finish();
              if (!around.ok()) return done(around.error());
              const json::object& metadata = map_at(*around, "metadata");
              list->page.resource_version = text_at(metadata, "resourceVersion");
              list->page.continue_token = text_at(metadata, "continue");
              done(std::move(list->page));
            }});
    stream->deadline = blocking_.post_after(kListDeadline, [operation,
                                                            weak = std::weak_ptr<Stream>(stream)] {
      const auto late = weak.lock();
      if (!late) return;
      operation->gate.run([&] {
        late->end(Error{ErrorCode::kDeadlineExceeded,
                        operation->what + ": the server did not send all of it within a minute"});
      });
    });
    return open(operation, stream);
  }

  Subscription open_watch(const std::shared_ptr<Operation>& operation,
                          const WatchHandler& handler) {
    const auto decoder = std::make_shared<WatchDecoder>(operation->what);
    const auto take = [operation, handler](WatchEventType type, json::object object) {
      handler.on_event(type, std::move(object));
      return operation->gate.run([] {});  // false: cancelled
    };
    const auto feed = [decoder, take](std::string_view data) { return decoder->feed(data, take); };
    return open(operation, std::make_shared<Stream>(Reading{.verb = "watch",
                                                            .on_open = handler.on_open,
                                                            .on_data = feed,
                                                            .on_end = handler.on_end}));
  }

  const std::string base_path_;
  net::HttpClient& http_;
  const std::shared_ptr<Credentials> credentials_;
  Executor& blocking_;
  MetricsSink& metrics_;
};

}  // namespace

std::unique_ptr<Api> make_api_client(const ApiClientOptions& options) {
  return std::make_unique<ApiClient>(options);
}

}  // namespace osm::inline v1::kubernetes
