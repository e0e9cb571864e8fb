// Each verb is the right request, refused tokens are read again, and throttled requests wait.
#include "kubernetes/client/api_client.hpp"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "kubernetes/client/resources.hpp"
#include "kubernetes/mesh_resources.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;

namespace {

using net::HttpRequest;
using net::Response;
namespace k = kubernetes;
namespace json = boost::json;

// Answers in the order that a test gives; what a request was is asserted afterwards.
class FakeHttp final : public net::HttpClient {
 public:
  Subscription send(HttpRequest, std::function<void(Result<Response>)>) override {
    FAIL("lists and watches are streams, all else is a call");
    return {};
  }
  Subscription open_stream(HttpRequest request, net::HttpStreamEvents events) override {
    requests.push_back(std::move(request));
    streams.push_back(std::move(events));
    return ended_with(ended);
  }
  Result<Response> call(HttpRequest request) override {
    requests.push_back(std::move(request));
    REQUIRE_FALSE(answers.empty());
    auto answer = std::move(answers.front());
    answers.pop_front();
    return answer;
  }

  std::string header(std::size_t request, std::string_view name) const {
    for (const auto& [key, value] : requests.at(request).headers)
      if (key == name) return value;
    return "";
  }

  // Answers the stream of that number.
  void answer(std::size_t stream, const Response& response) {
    streams.at(stream).on_head(response);
    streams.at(stream).on_data(response.body);
    streams.at(stream).on_end({});
  }

  std::vector<HttpRequest> requests;
  std::deque<Result<Response>> answers;  // to call()
  std::vector<net::HttpStreamEvents> streams;
  int ended = 0;

 private:
  static Subscription ended_with(int& count) {
    return Subscription(std::shared_ptr<void>(&count, [&count](void*) { ++count; }));
  }
};

Response status_of(int code, const std::string& reason, const std::string& message,
                   const std::string& more = "") {
  Response response;
  response.status = code;
  response.body = R"({"kind":"Status","apiVersion":"v1","code":)" + std::to_string(code) +
                  R"(,"reason":")" + reason + R"(","message":")" + message + '"' + more + '}';
  return response;
}

Response body_of(const std::string& text) {
  Response response;
  response.body = text;
  return response;
}

struct Fixture {
  Fixture() {
    write_token("one");
    k::Access access;
    access.token_file = directory.file("token");
    api = k::make_api_client({.base_path = "/base",
                              .credentials = std::make_shared<k::Credentials>(
                                  access, std::map<std::string, std::string>(), clock),
                              .http = http,
                              .blocking = executor,
                              .metrics = metrics});
  }
  void write_token(const std::string& token) const { directory.write("token", token); }

  testing::TemporaryDirectory directory;
  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  testing::CapturingMetrics metrics;
  FakeHttp http;
  std::unique_ptr<k::Api> api;
};

const json::object kMap{{"metadata", {{"name", "m"}, {"namespace", "shop"}}}};

TEST_SUITE("kubernetes::make_api_client") {
  TEST_CASE("each verb is a method, a path, a content type and its words") {
    Fixture f;
    for (int i = 0; i < 8; ++i) f.http.answers.push_back(body_of(R"({"kind":"x"})"));
    CHECK(f.api->get(k::kPods, "shop", "p").ok());
    CHECK(f.api->create(k::kSecrets, kMap).ok());
    CHECK(f.api->update(k::kTrafficTargets, kMap, "status").ok());
    CHECK(f.api->patch(k::kPods, "shop", "p", {.type = k::PatchType::kMerge, .body = "{}"}).ok());
    CHECK(f.api
              ->patch(k::kCrds, "", "c",
                      {.type = k::PatchType::kApply,
                       .body = "{}",
                       .subresource = "status",
                       .field_manager = "a&b",
                       .force = true})
              .ok());
    CHECK(f.api->remove(k::kPods, "shop", "p", {.uid = "u", .resource_version = "7"}).ok());
    CHECK(f.api->remove(k::kPods, "shop", "p").ok());
    struct Expected {
      const char* method;
      const char* target;
      const char* content_type;
      const char* body;
    };
    const std::vector<Expected> expected{
        {"GET", "/base/api/v1/namespaces/shop/pods/p", "", ""},
        {"POST", "/base/api/v1/namespaces/shop/secrets?fieldManager=osm", "application/json",
         R"({"metadata":{"name":"m","namespace":"shop"}})"},
        {"PUT",
         "/base/apis/access.smi-spec.io/v1alpha3/namespaces/shop/traffictargets/m/status"
         "?fieldManager=osm",
         "application/json", R"({"metadata":{"name":"m","namespace":"shop"}})"},
        {"PATCH", "/base/api/v1/namespaces/shop/pods/p?fieldManager=osm",
         "application/merge-patch+json", "{}"},
        {"PATCH",
         "/base/apis/apiextensions.k8s.io/v1/customresourcedefinitions/c/status"
         "?fieldManager=a%26b&force=true",
         "application/apply-patch+yaml", "{}"},
        {"DELETE", "/base/api/v1/namespaces/shop/pods/p", "application/json",
         R"({"apiVersion":"v1","kind":"DeleteOptions",)"
         R"("preconditions":{"uid":"u","resourceVersion":"7"}})"},
        {"DELETE", "/base/api/v1/namespaces/shop/pods/p", "", ""},
    };
    REQUIRE(f.http.requests.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CAPTURE(i);
      CHECK(f.http.requests[i].method == expected[i].method);
      CHECK(f.http.requests[i].target == expected[i].target);
      CHECK(f.http.requests[i].body == expected[i].body);
      CHECK(f.http.header(i, "Content-Type") == expected[i].content_type);
      CHECK(f.http.header(i, "Authorization") == "Bearer one");
    }
    CHECK(f.metrics.value("osm_kubernetes_requests_total", {{"verb", "get"}, {"code", "200"}}) ==
          1);
  }

  TEST_CASE("a Status is an error of its code, with what was tried and the server's words") {
    struct Case {
      Response response;
      ErrorCode code;
      std::string message;
    };
    for (const Case& c : {
             Case{status_of(404, "NotFound", "pods \\\"p\\\" not found"), ErrorCode::kNotFound,
                  "get Pod shop/p: pods \"p\" not found"},
             Case{status_of(409, "Conflict", "changed"), ErrorCode::kConflict, "changed"},
             Case{status_of(409, "AlreadyExists", "there"), ErrorCode::kAlreadyExists, "there"},
             Case{status_of(410, "Expired", "old"), ErrorCode::kGone, "old"},
             Case{status_of(504, "Timeout", "Too large resource version: 9, current: 7",
                            R"(,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]})"),
                  ErrorCode::kGone, "Too large"},
             Case{status_of(403, "Forbidden", "pods is forbidden"), ErrorCode::kPermissionDenied,
                  "pods is forbidden; grant it to this account (RBAC)"},
             Case{status_of(422, "Invalid", "invalid",
                            R"(,"details":{"causes":[{"field":"spec.a","message":"required"}]})"),
                  ErrorCode::kInvalidField, "invalid; spec.a: required"},
             Case{status_of(400, "BadRequest", "bad"), ErrorCode::kInvalidArgument, "bad"},
             Case{status_of(413, "RequestEntityTooLarge", "big"), ErrorCode::kTooLarge, "big"},
             Case{status_of(500, "InternalError", "oops"), ErrorCode::kUnavailable, "oops"},
             Case{status_of(503, "", ""), ErrorCode::kUnavailable, "refused without a word"},
             Case{status_of(405, "MethodNotAllowed", "no"), ErrorCode::kInternal, "no"},
         }) {
      CAPTURE(c.message);
      Fixture f;
      f.http.answers.push_back(c.response);
      const auto answer = f.api->get(k::kPods, "shop", "p");
      REQUIRE_FALSE(answer.ok());
      CHECK(answer.error().code == c.code);
      CHECK_MESSAGE(answer.error().message.find(c.message) != std::string::npos,
                    answer.error().message);
    }
    Fixture f;  // what is between may answer, too
    Response proxy = body_of("<html>" + std::string(10'000, 'x'));
    proxy.status = 502;
    f.http.answers.push_back(proxy);
    f.http.answers.push_back(body_of("<html>s3cret"));
    const auto answer = f.api->get(k::kPods, "shop", "p");
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::kUnavailable);
    CHECK(answer.error().message.size() < 3000);
    const auto no_json = f.api->get(k::kPods, "shop", "p");
    REQUIRE_FALSE(no_json.ok());
    CHECK(no_json.error().code == ErrorCode::kInvalidSyntax);
    CHECK(no_json.error().message.find("s3cret") == std::string::npos);
  }

  TEST_CASE("a token that is refused is read again, and tried once if it is another") {
    Fixture f;
    f.http.answers.push_back(body_of("{}"));
    CHECK(f.api->get(k::kPods, "shop", "p").ok());
    f.write_token("two");
    f.http.answers.push_back(status_of(401, "Unauthorized", "Unauthorized"));
    f.http.answers.push_back(body_of("{}"));
    CHECK(f.api->get(k::kPods, "shop", "p").ok());
    CHECK(f.http.header(1, "Authorization") == "Bearer one");
    CHECK(f.http.header(2, "Authorization") == "Bearer two");
    f.http.answers.push_back(status_of(401, "Unauthorized", "Unauthorized"));
    const auto refused = f.api->get(k::kPods, "shop", "p");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kPermissionDenied);
    CHECK(refused.error().message.find("two") == std::string::npos);
    CHECK(f.http.requests.size() == 4);
  }

  TEST_CASE("lists and watches as well take the new token") {
    Fixture f;
    std::optional<Result<k::ListPage>> page;
    const auto list = f.api->list({k::kPods}, [&](Result<k::ListPage> p) { page = std::move(p); });
    f.write_token("two");
    f.http.answer(0, status_of(401, "Unauthorized", "Unauthorized"));
    CHECK_FALSE(page);
    REQUIRE(f.http.requests.size() == 2);
    CHECK(f.http.header(1, "Authorization") == "Bearer two");
    f.http.answer(1, body_of(R"({"metadata":{"resourceVersion":"7","continue":"c"},)"
                             R"("items":[{"metadata":{"name":"p"}}]})"));
    REQUIRE(page);
    REQUIRE(page->ok());
    CHECK((*page)->resource_version == "7");
    CHECK((*page)->continue_token == "c");
    CHECK((*page)->items.at(0).at("kind") == "Pod");

    std::optional<Status> end;
    const auto watch = f.api->watch(
        {k::kPods}, {.on_event = [](auto, const auto&) {}, .on_end = [&](Status s) { end = s; }});
    f.write_token("three");
    Response head;
    head.status = 401;
    f.http.streams.at(2).on_head(head);
    f.http.streams.at(2).on_end({});
    CHECK_FALSE(end);
    REQUIRE(f.http.streams.size() == 4);
    CHECK(f.http.header(3, "Authorization") == "Bearer three");
    f.http.streams.at(3).on_head(head);
    f.http.streams.at(3).on_data("no");
    f.http.streams.at(3).on_end({});
    REQUIRE(end);
    REQUIRE_FALSE(end->ok());
    CHECK(end->error().code == ErrorCode::kPermissionDenied);
  }

  TEST_CASE("a list asks for what was asked, escaped") {
    Fixture f;
    const auto list = f.api->list({.resource = k::kPods,
                                   .ns = "shop",
                                   .label_selector = "a in (b,c)",
                                   .field_selector = "metadata.name!=x",
                                   .limit = 2,
                                   .continue_token = "a+b/c="},
                                  [](const auto&) {});
    CHECK(f.http.requests.at(0).target ==
          "/base/api/v1/namespaces/shop/pods?labelSelector=a%20in%20%28b%2Cc%29"
          "&fieldSelector=metadata.name%21%3Dx&limit=2&continue=a%2Bb%2Fc%3D");
  }

  TEST_CASE("a list of any version says so on its first page") {
    Fixture f;
    k::ListRequest request{.resource = k::kPods, .any_version = true};
    const auto first = f.api->list(request, [](const auto&) {});
    request.continue_token = "c";
    const auto second = f.api->list(request, [](const auto&) {});
    CHECK(f.http.requests.at(0).target == "/base/api/v1/pods?limit=500&resourceVersion=0");
    CHECK(f.http.requests.at(1).target == "/base/api/v1/pods?limit=500&continue=c");
  }

  TEST_CASE("items of a list are told as they arrive, and not again in its answer") {
    Fixture f;
    std::vector<std::string> names;
    std::optional<Result<k::ListPage>> page;
    const auto list =
        f.api->list({.resource = k::kPods,
                     .on_item =
                         [&](const json::object& item) {
                           CHECK(item.at("kind") == "Pod");
                           names.emplace_back(item.at("metadata").at("name").as_string());
                         }},
                    [&](Result<k::ListPage> listed) { page = std::move(listed); });
    CHECK(f.http.requests.at(0).gzip);
    auto& stream = f.http.streams.at(0);
    stream.on_head({});
    stream.on_data(
        R"({"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"me)");
    CHECK(names == std::vector<std::string>{"a"});
    stream.on_data(R"(tadata":{"name":"b"}}]})");
    CHECK_FALSE(page);
    stream.on_end({});
    CHECK(names == std::vector<std::string>{"a", "b"});
    REQUIRE(page);
    REQUIRE(page->ok());
    CHECK((*page)->resource_version == "7");
    CHECK((*page)->items.empty());
  }

  TEST_CASE("a list that is cut, or takes longer than a minute, fails once") {
    Fixture f;
    for (const bool cut : {true, false}) {
      CAPTURE(cut);
      std::vector<ErrorCode> errors;
      const auto list = f.api->list({k::kPods}, [&](const Result<k::ListPage>& page) {
        errors.push_back(page.ok() ? ErrorCode::kInternal : page.error().code);
      });
      auto& stream = f.http.streams.back();
      stream.on_head({});
      stream.on_data(R"({"items":[{"metadata":{"name":"a"}})");
      if (!cut) f.executor.run_for(std::chrono::seconds(61));
      stream.on_end({});
      CHECK(errors ==
            std::vector<ErrorCode>{cut ? ErrorCode::kInvalidSyntax : ErrorCode::kDeadlineExceeded});
    }
  }

  TEST_CASE("a watch tells its events, and its end once") {
    Fixture f;
    bool opened = false;
    std::vector<k::WatchEventType> events;
    std::vector<Status> ends;
    auto watch = f.api->watch(
        {.resource = k::kPods, .resource_version = "7"},
        {.on_open = [&] { opened = true; },
         .on_event = [&](k::WatchEventType type, const json::object&) { events.push_back(type); },
         .on_end = [&](const Status& s) { ends.push_back(s); }});
    CHECK(f.http.requests.at(0).target ==
          "/base/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=7"
          "&timeoutSeconds=300");
    auto& stream = f.http.streams.at(0);
    stream.on_head({});
    CHECK(opened);
    stream.on_data("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"BOOK");
    stream.on_data("MARK\",\"object\":{}}\n");
    CHECK(events == std::vector{k::WatchEventType::kAdded, k::WatchEventType::kBookmark});
    stream.on_data("garbage\n{\"type\":\"ADDED\",\"object\":{}}\n");
    stream.on_end(Error{ErrorCode::kUnavailable, "reset"});
    CHECK(events.size() == 2);
    REQUIRE(ends.size() == 1);
    CHECK(ends.front().error().code == ErrorCode::kInvalidSyntax);
  }

  TEST_CASE("nothing is told once the handle is gone, not even the rest of the same bytes") {
    Fixture f;
    int events = 0;
    Subscription watch;
    watch = f.api->watch({k::kPods}, {.on_event =
                                          [&](auto, const auto&) {
                                            ++events;
                                            watch.reset();
                                          },
                                      .on_end = [&](const auto&) { events += 100; }});
    auto& stream = f.http.streams.at(0);
    stream.on_head({});
    stream.on_data("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ADDED\",\"object\":{}}\n");
    stream.on_end({});
    CHECK(events == 1);
    CHECK(f.http.ended == 1);

    int answers = 0;
    auto list = f.api->list({k::kPods}, [&](const auto&) { ++answers; });
    list.reset();
    f.http.answer(1, body_of("{}"));
    CHECK(answers == 0);
  }

  TEST_CASE("a throttled request waits as the server says, and is retried") {
    Fixture f;
    Response later = status_of(429, "TooManyRequests", "slow down");
    later.headers = {{"retry-After", "1"}};
    f.http.answers = {later, body_of("{}")};
    const auto start = std::chrono::steady_clock::now();
    CHECK(f.api->get(k::kPods, "shop", "p").ok());
    CHECK(std::chrono::steady_clock::now() - start >= std::chrono::seconds(1));
    later.headers = {{"retry-After", "0"}};
    f.http.answers = {later, later, later};
    const auto given_up = f.api->get(k::kPods, "shop", "p");
    REQUIRE_FALSE(given_up.ok());
    CHECK(given_up.error().code == ErrorCode::kUnavailable);
    // Nobody sleeps long: the caller tries again.
    later.headers = {{"retry-After", "3600"}};
    f.http.answers = {later};
    CHECK_FALSE(f.api->get(k::kPods, "shop", "p").ok());
    CHECK(f.http.answers.empty());
  }

  TEST_CASE("a throttled list is sent again when the server says, three times at most") {
    Fixture f;
    std::optional<Result<k::ListPage>> answer;
    const auto list =
        f.api->list({k::kPods}, [&](Result<k::ListPage> page) { answer = std::move(page); });
    Response later = status_of(429, "TooManyRequests", "slow down");
    later.headers = {{"Retry-After", "7"}};
    for (std::size_t sent = 1; sent < 3; ++sent) {
      f.http.answer(sent - 1, later);
      f.executor.run_for(std::chrono::milliseconds(6900));
      CHECK(f.http.requests.size() == sent);
      CHECK_FALSE(answer);
      f.executor.run_for(std::chrono::milliseconds(200));
      CHECK(f.http.requests.size() == sent + 1);
    }
    f.http.answer(2, later);
    REQUIRE(answer);
    CHECK(answer->error().code == ErrorCode::kUnavailable);
  }

  TEST_CASE("a throttled watch is opened again when the server says, unless it is given up") {
    Fixture f;
    std::size_t ends = 0;
    Subscription watch = f.api->watch(
        {k::kPods}, {.on_event = [](auto, auto) {}, .on_end = [&](const Status&) { ++ends; }});
    Response later = status_of(429, "TooManyRequests", "slow down");
    later.headers = {{"Retry-After", "7"}};
    const auto refuse = [&](std::size_t stream) {
      f.http.streams.at(stream).on_head(later);
      f.http.streams.at(stream).on_end({});
    };
    refuse(0);
    f.executor.run_for(std::chrono::seconds(8));
    REQUIRE(f.http.streams.size() == 2);
    refuse(1);
    watch.reset();
    f.executor.run_for(std::chrono::seconds(8));
    CHECK(f.http.streams.size() == 2);
    CHECK(ends == 0);
  }
}

}  // namespace
