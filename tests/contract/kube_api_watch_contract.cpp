// An API server pages, watches, bookmarks and compacts as the real one does.
//
// Behaviour of lists and watches on an API server that plugins/kubernetes relies on.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "contract/kube_api_server.hpp"

namespace osm::contract {
namespace {

using kubernetes::kConfigMaps;
using kubernetes::kTrafficTargets;
using kubernetes::ListPage;
using kubernetes::ListRequest;
using kubernetes::WatchEventType;
using kubernetes::WatchRequest;

std::uint64_t number(const std::string& version) { return std::stoull(version); }

Result<ListPage> list(KubeServer& server, const ListRequest& request) {
  std::mutex mutex;
  std::optional<Result<ListPage>> answer;
  const Subscription handle = server.api().list(request, [&](Result<ListPage> page) {
    const std::lock_guard lock(mutex);
    answer = std::move(page);
  });
  REQUIRE(server.wait_until([&] {
    const std::lock_guard lock(mutex);
    return answer.has_value();
  }));
  return *std::move(answer);
}
std::vector<std::string> names_of(const ListPage& page) {
  std::vector<std::string> names;
  for (const json::object& item : page.items) names.push_back(text_at(item, "/metadata/name"));
  return names;
}
using Names = std::vector<std::string>;

// Events of a watch as "added x", and its end.
class Watched {
 public:
  Watched(KubeServer& server, WatchRequest request)
      : server_(server), handle_(start(server, std::move(request))) {}

  bool opened() {
    return server_.wait_until([&] {
      const std::lock_guard lock(mutex_);
      return opened_;
    });
  }
  // Result: false if another event came, or none in time.
  bool sees(const std::vector<std::string>& wanted) {
    const bool came = server_.wait_until([&] {
      const std::lock_guard lock(mutex_);
      return events_.size() >= wanted.size();
    });
    if (wanted.empty()) server_.linger();
    const std::lock_guard lock(mutex_);
    if (came && events_ == wanted) return true;
    for (const std::string& event : events_) MESSAGE(event);
    return false;
  }
  Status end() {
    REQUIRE(server_.wait_until([&] {
      const std::lock_guard lock(mutex_);
      return end_.has_value();
    }));
    const std::lock_guard lock(mutex_);
    return *end_;
  }
  bool ended() {
    const std::lock_guard lock(mutex_);
    return end_.has_value();
  }
  json::object last() {
    const std::lock_guard lock(mutex_);
    return last_;
  }
  std::string bookmark() {
    const std::lock_guard lock(mutex_);
    return bookmark_;
  }

 private:
  Subscription start(KubeServer& server, WatchRequest request) {
    return server.api().watch(
        request,
        {.on_open =
             [this] {
               const std::lock_guard lock(mutex_);
               opened_ = true;
             },
         .on_event = [this](WatchEventType type, json::object object) { take(type, object); },
         .on_end =
             [this](const Status& status) {
               const std::lock_guard lock(mutex_);
               end_ = status;
             }});
  }
  void take(WatchEventType type, const json::object& object) {
    const std::lock_guard lock(mutex_);
    if (type == WatchEventType::kBookmark) {
      bookmark_ = version_of(object);
      return;
    }
    const char* const verb = type == WatchEventType::kAdded      ? "added "
                             : type == WatchEventType::kModified ? "modified "
                                                                 : "deleted ";
    events_.push_back(verb + text_at(object, "/metadata/name"));
    last_ = object;
  }

  KubeServer& server_;
  std::mutex mutex_;
  bool opened_ = false;
  std::vector<std::string> events_;
  json::object last_;
  std::string bookmark_;
  std::optional<Status> end_;
  Subscription handle_;  // last: its callbacks use the rest
};

TEST_SUITE("API server contract: lists") {
  TEST_CASE("a list is in the order of names, of one namespace, with the version that it shows") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("list-a");
      server->make_namespace("list-b");
      server->put(kConfigMaps, config_map("list-b", "other", "1"));
      server->put(kConfigMaps, config_map("list-a", "b", "1"));
      const std::string last = server->put(kConfigMaps, config_map("list-a", "a", "1"));
      const ListPage page = value_of(list(*server, {.resource = kConfigMaps, .ns = "list-a"}));
      CHECK(names_of(page) == Names{"a", "b"});
      CHECK(number(page.resource_version) >= number(last));
      CHECK(page.continue_token.empty());
      REQUIRE_FALSE(page.items.empty());
      CHECK(text_at(page.items[0], "/kind") == "ConfigMap");
      CHECK(text_at(page.items[0], "/apiVersion") == "v1");
      CHECK(version_of(page.items[0]) == last);

      const ListPage all = value_of(list(*server, {.resource = kConfigMaps}));
      const Names names = names_of(all);
      const auto at = [&](const char* name) { return std::find(names.begin(), names.end(), name); };
      CHECK(at("b") < at("other"));
      CHECK(at("other") != names.end());
    }
  }

  TEST_CASE("selectors choose by labels and by name") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("select");
      server->put(kConfigMaps, config_map("select", "a", "1", {{"app", "osm"}, {"part", "x"}}));
      server->put(kConfigMaps, config_map("select", "b", "1", {{"app", "osm"}}));
      server->put(kConfigMaps, config_map("select", "c", "1", {{"app", "other"}}));
      const auto chosen = [&](const std::string& labels, const std::string& fields = "") {
        return names_of(value_of(list(*server, {.resource = kConfigMaps,
                                                .ns = "select",
                                                .label_selector = labels,
                                                .field_selector = fields})));
      };
      CHECK(chosen("app=osm") == Names{"a", "b"});
      CHECK(chosen("app=osm,part=x") == Names{"a"});
      CHECK(chosen("part") == Names{"a"});
      CHECK(chosen("", "metadata.name=c") == Names{"c"});
      CHECK(chosen("app=osm", "metadata.name=c").empty());
    }
  }

  TEST_CASE("a list of metadata has no contents") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("metadata");
      server->put(kConfigMaps, config_map("metadata", "a", "secret", {{"app", "osm"}}));
      const ListPage page = value_of(
          list(*server, {.resource = kConfigMaps, .ns = "metadata", .metadata_only = true}));
      REQUIRE(page.items.size() == 1);
      CHECK(text_at(page.items[0], "/metadata/name") == "a");
      CHECK(text_at(page.items[0], "/metadata/labels/app") == "osm");
      CHECK_FALSE(page.items[0].contains("data"));
    }
  }

  TEST_CASE("a list of any version is told by item, and a watch from it tells the rest") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("cached");
      for (const char* name : {"a", "b", "c"})
        server->put(kConfigMaps, config_map("cached", name, "1"));
      std::mutex mutex;
      std::set<std::string> known;
      const ListPage page = value_of(list(*server, {.resource = kConfigMaps,
                                                    .ns = "cached",
                                                    .any_version = true,
                                                    .on_item = [&](const json::object& item) {
                                                      const std::lock_guard lock(mutex);
                                                      known.insert(text_at(item, "/metadata/name"));
                                                    }}));
      CHECK(page.items.empty());
      REQUIRE(number(page.resource_version) > 0);
      const Subscription watch = server->api().watch(
          {.resource = kConfigMaps, .ns = "cached", .resource_version = page.resource_version},
          {.on_event =
               [&](WatchEventType, const json::object& object) {
                 const std::lock_guard lock(mutex);
                 known.insert(text_at(object, "/metadata/name"));
               },
           .on_end = [](const Status&) {}});
      server->put(kConfigMaps, config_map("cached", "d", "1"));
      CHECK(server->wait_until([&] {
        const std::lock_guard lock(mutex);
        return known == std::set<std::string>{"a", "b", "c", "d"};
      }));
    }
  }

  TEST_CASE("pages are of one version, whatever happens between them") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("pages");
      for (const char* name : {"a", "b", "c", "d", "e"})
        server->put(kConfigMaps, config_map("pages", name, "1"));
      ListRequest request{.resource = kConfigMaps, .ns = "pages", .limit = 2};
      const ListPage first = value_of(list(*server, request));
      CHECK(names_of(first) == Names{"a", "b"});
      REQUIRE_FALSE(first.continue_token.empty());
      server->remove(kConfigMaps, "pages", "c");
      server->put(kConfigMaps, config_map("pages", "bb", "1"));
      request.continue_token = first.continue_token;
      const ListPage second = value_of(list(*server, request));
      CHECK(names_of(second) == Names{"c", "d"});
      CHECK(second.resource_version == first.resource_version);
      request.continue_token = second.continue_token;
      const ListPage last = value_of(list(*server, request));
      CHECK(names_of(last) == Names{"e"});
      CHECK(last.resource_version == first.resource_version);
      CHECK(last.continue_token.empty());
    }
  }

  TEST_CASE("a page of a version that was forgotten is gone") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("forgotten-pages");
      for (const char* name : {"a", "b", "c"})
        server->put(kConfigMaps, config_map("forgotten-pages", name, "1"));
      ListRequest request{.resource = kConfigMaps, .ns = "forgotten-pages", .limit = 2};
      request.continue_token = value_of(list(*server, request)).continue_token;
      server->put(kConfigMaps, config_map("forgotten-pages", "d", "1"));
      server->forget_pages();
      CHECK(error_of(list(*server, request)).code == ErrorCode::kGone);
    }
  }
}

TEST_SUITE("API server contract: watches") {
  TEST_CASE("a watch from the version of a list tells every later change once, in order") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch");
      server->make_namespace("watch-other");
      server->put(kConfigMaps, config_map("watch", "before", "1"));
      const ListPage page = value_of(list(*server, {.resource = kConfigMaps, .ns = "watch"}));
      // Between the list and the watch.
      server->put(kConfigMaps, config_map("watch", "x", "1"));
      Watched watched(
          *server,
          {.resource = kConfigMaps, .ns = "watch", .resource_version = page.resource_version});
      CHECK(watched.opened());
      CHECK(watched.sees({"added x"}));
      server->put(kConfigMaps, config_map("watch-other", "y", "1"));
      const std::string changed = server->put(kConfigMaps, config_map("watch", "x", "2"));
      CHECK(watched.sees({"added x", "modified x"}));
      CHECK(version_of(watched.last()) == changed);
      CHECK(text_at(watched.last(), "/data/key") == "2");
      CHECK(text_at(watched.last(), "/kind") == "ConfigMap");
      server->remove(kConfigMaps, "watch", "x");
      CHECK(watched.sees({"added x", "modified x", "deleted x"}));
      CHECK(number(version_of(watched.last())) > number(changed));
      CHECK(text_at(watched.last(), "/data/key") == "2");
    }
  }

  TEST_CASE("a watch from the newest version tells nothing that was before") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-now");
      server->put(kConfigMaps, config_map("watch-now", "x", "1"));
      const std::string newest = server->put(kConfigMaps, config_map("watch-now", "x", "2"));
      Watched watched(*server,
                      {.resource = kConfigMaps, .ns = "watch-now", .resource_version = newest});
      CHECK(watched.opened());
      CHECK(watched.sees({}));
    }
  }

  TEST_CASE("a watch without a version begins with the present objects") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-any");
      server->put(kConfigMaps, config_map("watch-any", "x", "1"));
      Watched watched(*server, {.resource = kConfigMaps, .ns = "watch-any"});
      CHECK(watched.sees({"added x"}));
      server->put(kConfigMaps, config_map("watch-any", "y", "1"));
      CHECK(watched.sees({"added x", "added y"}));
    }
  }

  TEST_CASE("an object that comes into a selector is added, one that leaves it is deleted") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-labels");
      const auto put = [&](const char* app, const char* value) {
        return server->put(kConfigMaps, config_map("watch-labels", "x", value, {{"app", app}}));
      };
      const std::string from = put("other", "1");
      const WatchRequest request{.resource = kConfigMaps,
                                 .ns = "watch-labels",
                                 .label_selector = "app=osm",
                                 .resource_version = from};
      const std::vector<std::string> wanted{"added x", "modified x", "deleted x"};
      Watched watched(*server, request);
      CHECK(watched.opened());
      put("osm", "2");
      put("osm", "3");
      const std::string left = put("other", "4");
      CHECK(watched.sees(wanted));
      CHECK(number(version_of(watched.last())) >= number(left));
      put("other", "5");
      server->linger();
      CHECK(watched.sees(wanted));
      // The same from history.
      Watched later(*server, request);
      CHECK(later.sees(wanted));
    }
  }

  TEST_CASE("a watch of metadata tells no contents") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-metadata");
      const std::string from = server->put(kConfigMaps, config_map("watch-metadata", "x", "1"));
      Watched watched(*server, {.resource = kConfigMaps,
                                .ns = "watch-metadata",
                                .resource_version = from,
                                .metadata_only = true});
      CHECK(watched.opened());
      const std::string added =
          server->put(kConfigMaps, config_map("watch-metadata", "y", "1", {{"app", "osm"}}));
      CHECK(watched.sees({"added y"}));
      CHECK(version_of(watched.last()) == added);
      CHECK(text_at(watched.last(), "/metadata/labels/app") == "osm");
      CHECK_FALSE(watched.last().contains("data"));
      server->remove(kConfigMaps, "watch-metadata", "y");
      CHECK(watched.sees({"added y", "deleted y"}));
      CHECK_FALSE(watched.last().contains("data"));
      Watched any(*server,
                  {.resource = kConfigMaps, .ns = "watch-metadata", .metadata_only = true});
      CHECK(any.sees({"added x"}));
      CHECK_FALSE(any.last().contains("data"));
    }
  }

  TEST_CASE("a watch ends without an error when its time is over, after a bookmark") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-end");
      const std::string from = server->put(kConfigMaps, config_map("watch-end", "x", "1"));
      Watched watched(*server, {.resource = kConfigMaps,
                                .ns = "watch-end",
                                .resource_version = from,
                                .timeout = std::chrono::seconds(6)});
      CHECK(watched.opened());
      const std::string last = server->put(kConfigMaps, config_map("watch-end", "x", "2"));
      server->time_out_watches();
      CHECK(watched.end().ok());
      REQUIRE_FALSE(watched.bookmark().empty());
      CHECK(number(watched.bookmark()) >= number(last));
    }
  }

  TEST_CASE("a watch from a version that is still to come stays open and tells nothing") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-future");
      Watched watched(
          *server, {.resource = kConfigMaps, .ns = "watch-future", .resource_version = "99999999"});
      CHECK(watched.opened());
      server->put(kConfigMaps, config_map("watch-future", "x", "1"));
      CHECK(watched.sees({}));
      CHECK_FALSE(watched.ended());
    }
  }

  TEST_CASE("a watch from a version that was forgotten is gone") {
    for (const auto& server : watch_servers()) {
      CAPTURE(server->name());
      server->make_namespace("watch-gone");
      server->put(kTrafficTargets, traffic_target("watch-gone", "x", "a"));
      Watched old(*server, {.resource = kTrafficTargets,
                            .ns = "watch-gone",
                            .resource_version = server->forgotten_version()});
      CHECK(error_of(old.end()).code == ErrorCode::kGone);
      // A watch starts from the version of the next list.
      const ListPage page =
          value_of(list(*server, {.resource = kTrafficTargets, .ns = "watch-gone"}));
      CHECK(names_of(page) == Names{"x"});
      Watched watched(*server, {.resource = kTrafficTargets,
                                .ns = "watch-gone",
                                .resource_version = page.resource_version});
      CHECK(watched.opened());
    }
  }
}

}  // namespace
}  // namespace osm::contract
