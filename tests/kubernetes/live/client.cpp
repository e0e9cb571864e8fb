// The API as a real server speaks it.
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <vector>

#include "live.hpp"
#include "osm/testing/thread_executor.hpp"

namespace json = boost::json;

namespace osm {
namespace {

using kubernetes::ListPage;
using kubernetes::ListRequest;
using kubernetes::PatchType;
using kubernetes::WatchEventType;
using live::config_map;
using live::kConfigMaps;
using live::text_at;
using testing::wait_until;

Result<ListPage> list(kubernetes::Api& api, const ListRequest& request) {
  std::promise<Result<ListPage>> answer;
  const Subscription handle =
      api.list(request, [&](Result<ListPage> page) { answer.set_value(std::move(page)); });
  return answer.get_future().get();
}

// Events of a watch, in order.
class Watched {
 public:
  Watched(kubernetes::Api& api, const kubernetes::WatchRequest& request)
      : handle_(api.watch(request, {.on_open = [this] { opened = true; },
                                    .on_event =
                                        [this](WatchEventType type, const json::object& object) {
                                          std::lock_guard lock(mutex_);
                                          events_.emplace_back(type,
                                                               text_at(object, "/metadata/name"));
                                        },
                                    .on_end =
                                        [this](const Status& status) {
                                          std::lock_guard lock(mutex_);
                                          end_ = status;
                                        }})) {}

  std::size_t count(WatchEventType type, const std::string& name) const {
    std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& event : events_) count += event == std::pair(type, name) ? 1 : 0;
    return count;
  }
  std::optional<Status> end() const {
    std::lock_guard lock(mutex_);
    return end_;
  }

  std::atomic<bool> opened{false};

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<WatchEventType, std::string>> events_;
  std::optional<Status> end_;
  Subscription handle_;
};

TEST_SUITE("kubernetes::Api, live") {
  TEST_CASE("a list is read page by page, of one version") {
    live::Server server;
    live::make_namespace(server.api(), "paging");
    for (const char* name : {"a", "b", "c", "d", "e"})
      REQUIRE(server.api().create(kConfigMaps, config_map("paging", name, "1")).ok());
    std::set<std::string> names;
    std::set<std::string> versions;
    ListRequest request{kConfigMaps, "paging"};
    request.field_selector = "metadata.name!=kube-root-ca.crt";
    request.limit = 2;
    int pages = 0;
    do {
      const auto page = list(server.api(), request);
      REQUIRE(page.ok());
      CHECK(page->items.size() <= 2);
      for (const auto& item : page->items) {
        names.insert(text_at(item, "/metadata/name"));
        CHECK(text_at(item, "/kind") == "ConfigMap");
        CHECK(text_at(item, "/apiVersion") == "v1");
      }
      versions.insert(page->resource_version);
      request.continue_token = page->continue_token;
      ++pages;
    } while (!request.continue_token.empty());
    CHECK(pages == 3);
    CHECK(names == std::set<std::string>{"a", "b", "c", "d", "e"});
    CHECK(versions.size() == 1);
  }

  TEST_CASE("a watch tells what is created, changed and deleted, and ends when it should") {
    live::Server server;
    live::make_namespace(server.api(), "watching");
    const auto page = list(server.api(), {kConfigMaps, "watching"});
    REQUIRE(page.ok());
    kubernetes::WatchRequest request{kConfigMaps, "watching"};
    request.resource_version = page->resource_version;
    request.timeout = std::chrono::seconds(6);
    const Watched watched(server.api(), request);
    REQUIRE(wait_until([&] { return watched.opened.load(); }));

    auto object = server.api().create(kConfigMaps, config_map("watching", "x", "1"));
    REQUIRE(object.ok());
    (*object)["data"] = json::object{{"key", "2"}};
    REQUIRE(server.api().update(kConfigMaps, *object).ok());
    REQUIRE(server.api().remove(kConfigMaps, "watching", "x").ok());
    CHECK(wait_until([&] { return watched.count(WatchEventType::kDeleted, "x") == 1; }));
    CHECK(watched.count(WatchEventType::kAdded, "x") == 1);
    CHECK(watched.count(WatchEventType::kModified, "x") == 1);
    CHECK(wait_until([&] { return watched.end().has_value(); }, std::chrono::seconds(30)));
    CHECK(watched.end()->ok());
    CHECK(watched.count(WatchEventType::kBookmark, "") > 0);  // before it ends
  }

  TEST_CASE("an update of a changed object is a conflict") {
    live::Server server;
    live::make_namespace(server.api(), "conflict");
    auto first = server.api().create(kConfigMaps, config_map("conflict", "x", "1"));
    REQUIRE(first.ok());
    auto second = *first;
    (*first)["data"] = json::object{{"key", "2"}};
    REQUIRE(server.api().update(kConfigMaps, *first).ok());
    second["data"] = json::object{{"key", "3"}};
    const auto late = server.api().update(kConfigMaps, second);
    REQUIRE_FALSE(late.ok());
    CHECK(late.error().code == ErrorCode::kConflict);
    CHECK(late.error().message.find("update ConfigMap conflict/x") != std::string::npos);
    const auto again = server.api().create(kConfigMaps, config_map("conflict", "x", "1"));
    REQUIRE_FALSE(again.ok());
    CHECK(again.error().code == ErrorCode::kAlreadyExists);
    // A deletion of another object of that name.
    const Status stale = server.api().remove(kConfigMaps, "conflict", "x", {.uid = "no-such-uid"});
    REQUIRE_FALSE(stale.ok());
    CHECK(stale.error().code == ErrorCode::kConflict);
    CHECK(server.api().remove(kConfigMaps, "conflict", "x").ok());
    const auto gone = server.api().get(kConfigMaps, "conflict", "x");
    REQUIRE_FALSE(gone.ok());
    CHECK(gone.error().code == ErrorCode::kNotFound);
  }

  TEST_CASE("server-side apply creates, owns its fields and takes others' only by force") {
    live::Server server;
    live::make_namespace(server.api(), "apply");
    const auto apply = [&](const std::string& value, const std::string& manager, bool force) {
      return server.api().patch(kConfigMaps, "apply", "x",
                                {.type = PatchType::kApply,
                                 .body = json::serialize(config_map("apply", "x", value)),
                                 .field_manager = manager,
                                 .force = force});
    };
    REQUIRE(apply("1", "osm", false).ok());
    const auto other = apply("2", "other", false);
    REQUIRE_FALSE(other.ok());
    CHECK(other.error().code == ErrorCode::kConflict);
    CHECK(other.error().message.find(".data.key") != std::string::npos);
    const auto forced = apply("2", "other", true);
    REQUIRE(forced.ok());
    CHECK(text_at(*forced, "/data/key") == "2");
    const auto merged = server.api().patch(
        kConfigMaps, "apply", "x", {.type = PatchType::kMerge, .body = R"({"data":{"more":"3"}})"});
    REQUIRE(merged.ok());
    CHECK(text_at(*merged, "/data/key") == "2");
    CHECK(text_at(*merged, "/data/more") == "3");
  }

  TEST_CASE("invalid objects are refused by field, forbidden requests by user and verb") {
    live::Server server;
    live::make_namespace(server.api(), "refused");
    auto invalid = config_map("refused", "Not_A_Name", "1");
    const auto created = server.api().create(kConfigMaps, invalid);
    REQUIRE_FALSE(created.ok());
    CHECK(created.error().code == ErrorCode::kInvalidField);
    CHECK(created.error().message.find("metadata.name") != std::string::npos);

    live::Server nobody("KUBERNETES_LIVE_NOBODY");
    const auto read = nobody.api().get(kubernetes::kSecrets, "refused", "x");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::kPermissionDenied);
    CHECK(read.error().message.find("secrets") != std::string::npos);
    CHECK(read.error().message.find("RBAC") != std::string::npos);
    const auto listed = list(nobody.api(), {kubernetes::kPods});
    REQUIRE_FALSE(listed.ok());
    CHECK(listed.error().code == ErrorCode::kPermissionDenied);
    const Watched watched(nobody.api(), {kubernetes::kPods});
    REQUIRE(wait_until([&] { return watched.end().has_value(); }));
    REQUIRE_FALSE(watched.end()->ok());
    CHECK(watched.end()->error().code == ErrorCode::kPermissionDenied);
  }

  TEST_CASE("a resource that the server does not have is not found") {
    live::Server server;
    const auto listed = list(server.api(), {{"example.org", "v1", "nothings", "Nothing"}});
    REQUIRE_FALSE(listed.ok());
    CHECK(listed.error().code == ErrorCode::kNotFound);
  }
}

// Tests of a server that was started after the first version was written.
TEST_SUITE("kubernetes::Api after a restart, live") {
  TEST_CASE("a version that is too old is gone") {
    live::Server server;
    kubernetes::WatchRequest request{kubernetes::kServices, ""};
    request.resource_version = "1";
    const Watched watched(server.api(), request);
    REQUIRE(wait_until([&] { return watched.end().has_value(); }));
    REQUIRE_FALSE(watched.end()->ok());
    CHECK(watched.end()->error().code == ErrorCode::kGone);
  }
}

}  // namespace
}  // namespace osm
