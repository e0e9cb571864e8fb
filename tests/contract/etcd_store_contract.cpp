// etcd pages, watches and compacts as the real one does, and the store over it passes the suite of
// stores.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "contract/etcd_server.hpp"
#include "etcd/client.hpp"
#include "etcd/object_keys.hpp"
#include "etcd/watch_answers.hpp"
#include "osm/spec/etcd_store.hpp"
#include "osm/testing/store_conformance.hpp"

namespace osm::contract {
namespace {

using etcd::WatchAnswer;

json::object put(const std::string& key, const std::string& value) {
  return {{"key", base64(key)}, {"value", base64(value)}};
}
json::object below(const std::string& prefix) {
  return {{"key", base64(prefix)}, {"range_end", base64(etcd::end_of(prefix))}};
}

// A watch of the keys below a prefix, from a revision on.
class Watch {
 public:
  Watch(EtcdServer& etcd, const std::string& prefix, const std::string& revision) {
    json::object create = below(prefix);
    create["start_revision"] = revision;
    create["progress_notify"] = true;
    create["fragment"] = true;
    client_ = net::HttpClient::create({.address = etcd.address()}, io_.executor());
    call_ = client_->open_stream(
        {.method = "POST",
         .target = "/v3/watch",
         .headers = {{"Content-Type", "application/json"}, {"Grpc-Metadata-hasleader", "true"}},
         .body = json::serialize(json::object{{"create_request", std::move(create)}})},
        {.on_head = [](const net::Response& head) { CHECK(head.status == 200); },
         .on_data =
             [this](std::string_view data) {
               auto answers = reader_.read(data);
               REQUIRE_MESSAGE(answers.ok(), answers.error().text());
               const std::lock_guard lock(mutex_);
               for (WatchAnswer& answer : *answers) answers_.push_back(std::move(answer));
               arrived_.notify_all();
             },
         .on_end = [](const Status&) {}});
  }
  ~Watch() { call_.reset(); }

  // The next answer.
  WatchAnswer next() {
    std::unique_lock lock(mutex_);
    REQUIRE(arrived_.wait_for(lock, std::chrono::seconds(10), [&] { return !answers_.empty(); }));
    WatchAnswer answer = answers_.front();
    answers_.erase(answers_.begin());
    return answer;
  }
  // The next events, which may come in several answers.
  std::vector<etcd::WatchEvent> events(std::size_t count) {
    std::vector<etcd::WatchEvent> events;
    while (events.size() < count)
      for (etcd::WatchEvent& event : next().events) events.push_back(std::move(event));
    return events;
  }

 private:
  net::Threads io_{1};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<WatchAnswer> answers_;
  etcd::WatchReader reader_;
  std::unique_ptr<net::HttpClient> client_;
  Subscription call_;
};

std::string revision_of(const Answer& answer) {
  REQUIRE_MESSAGE(answer.status == 200, answer.text);
  return json::value_to<std::string>(answer.body.at("header").at("revision"));
}

TEST_SUITE("etcd contract: watches") {
  TEST_CASE("a watch tells of every change from its revision on, in order") {
    const auto etcd = make_etcd();
    const std::string prefix = "/contract/watch/";
    const std::string first = revision_of(etcd->post("kv/put", put(prefix + "a", "1")));
    etcd->post("kv/put", put("/contract/elsewhere", "1"));
    Watch watch(*etcd, prefix, first);
    const WatchAnswer created = watch.next();
    CHECK(created.created);
    CHECK(created.events.empty());
    etcd->post("kv/put", put(prefix + "b", "2"));
    etcd->post("kv/deleterange", {{"key", base64(prefix + "a")}});
    const auto events = watch.events(3);
    REQUIRE(events.size() == 3);
    CHECK(events[0].pair.key == prefix + "a");
    CHECK(events[0].pair.value == "1");
    CHECK(std::to_string(events[0].pair.revision) == first);
    CHECK(events[1].pair.key == prefix + "b");
    CHECK_FALSE(events[1].deleted);
    CHECK(events[2].pair.key == prefix + "a");
    CHECK(events[2].deleted);
    CHECK(events[2].pair.revision > events[1].pair.revision);
  }

  TEST_CASE("a watch from a compacted revision is canceled, and a list of it is refused") {
    const auto etcd = make_etcd();
    const std::string prefix = "/contract/compacted/";
    const std::string first = revision_of(etcd->post("kv/put", put(prefix + "a", "1")));
    const std::string second = revision_of(etcd->post("kv/put", put(prefix + "a", "2")));
    revision_of(etcd->post("kv/compaction", {{"revision", second}}));
    Watch watch(*etcd, prefix, first);
    WatchAnswer answer = watch.next();
    if (answer.created && !answer.canceled) answer = watch.next();
    CHECK(answer.canceled);
    CHECK(std::to_string(answer.compact_revision) == second);
    json::object old = below(prefix);
    old["revision"] = first;
    const Answer refused = etcd->post("kv/range", old);
    CHECK(refused.status == 400);
    REQUIRE(refused.body.contains("code"));
    CHECK(refused.body.at("code") == 11);
  }

  TEST_CASE("a page says that there is more, and how many keys there are") {
    const auto etcd = make_etcd();
    const std::string prefix = "/contract/pages/";
    for (const char* name : {"a", "b", "c"}) etcd->post("kv/put", put(prefix + name, name));
    json::object page = below(prefix);
    page["limit"] = 2;
    const Answer first = etcd->post("kv/range", page);
    REQUIRE_MESSAGE(first.body.contains("more"), first.text);
    CHECK(first.body.at("more") == true);
    CHECK(first.body.at("count") == "3");
    CHECK(first.body.at("kvs").as_array().size() == 2);
    page["key"] = base64(prefix + "b" + '\0');
    page["revision"] = revision_of(first);
    const Answer second = etcd->post("kv/range", page);
    CHECK_FALSE(second.body.contains("more"));
    CHECK(second.body.at("kvs").as_array().size() == 1);
  }

  TEST_CASE("a transaction deletes a key that is of the revision that was read") {
    const auto etcd = make_etcd();
    const std::string key = base64("/contract/deleted");
    const std::string revision =
        revision_of(etcd->post("kv/put", {{"key", key}, {"value", base64("1")}}));
    const auto remove = [&](const std::string& expected) {
      const json::object unchanged{
          {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", expected}, {"key", key}};
      const json::object deletion{{"request_delete_range", {{"key", key}}}};
      const Answer answer = etcd->post(
          "kv/txn", {{"compare", json::array{unchanged}}, {"success", json::array{deletion}}});
      REQUIRE_MESSAGE(answer.status == 200, answer.text);
      return answer.body.contains("succeeded");
    };
    CHECK_FALSE(remove("1"));
    CHECK(remove(revision));
    CHECK_FALSE(remove(revision));
  }

  TEST_CASE("a watch without the right to read is canceled with the reason") {
    const auto etcd = make_etcd();
    etcd->enable_users("mesh", "pass", "/contract/users");
    Watch watch(*etcd, "/contract/watch/", "1");
    const WatchAnswer answer = watch.next();
    CHECK(answer.canceled);
    CHECK(answer.compact_revision == 0);
    CHECK(answer.reason.find("etcdserver: user name is empty") != std::string::npos);
    etcd->disable_users();
  }
}

// Keys of an etcd that cannot be taken away.
class StoredInEtcd final : public testing::StorePlatform {
 public:
  StoredInEtcd() {
    static std::atomic<int> next{0};
    client_.options.key = "/contract/store-" + std::to_string(++next);
    client_.options.endpoints = {"http://" + etcd_->address().str()};
  }
  testing::StoreTraits traits() const override { return {.outages = false}; }
  std::unique_ptr<ObjectStore> start(const Runtime& runtime) override {
    auto store = etcd::make_object_store({.etcd = client_.options, .runtime = runtime});
    REQUIRE_MESSAGE(store.ok(), store.error().text());
    return *std::move(store);
  }
  void put(const Object& object) override { write(object.key, json::serialize(*object.document)); }
  void put_broken(const ObjectKey& key) override { write(key, "{not: [closed"); }
  void remove(const ObjectKey& key) override {
    etcd_->post("kv/deleterange", {{"key", base64(path_of(key))}});
  }

 private:
  std::string path_of(const ObjectKey& key) const {
    return *etcd::ObjectKeys(client_.options.key).key_of(key);
  }
  void write(const ObjectKey& key, const std::string& text) {
    const Answer answer = etcd_->post("kv/put", contract::put(path_of(key), text));
    REQUIRE_MESSAGE(answer.status == 200, answer.text);
  }
  void set_reachable(bool) override {}

  const std::unique_ptr<EtcdServer> etcd_ = make_etcd();
  etcd_test::ClientOptions client_{{}};
};

TEST_SUITE("etcd contract: the store") {
  TEST_CASE("the store over etcd passes the suite of stores") {
    const auto report = testing::check_store([] { return std::make_unique<StoredInEtcd>(); });
    CHECK_MESSAGE(report.passed(), report.text());
  }
}

}  // namespace
}  // namespace osm::contract
