// etcd creates, reads, compares and ends leases as the real one does.
//
// Answers of etcd's JSON gateway that plugins/etcd relies on.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "contract/etcd_server.hpp"

namespace osm::contract {
namespace {

json::object create(const std::string& key, const std::string& value) {
  const json::object missing{
      {"target", "CREATE"}, {"result", "EQUAL"}, {"create_revision", "0"}, {"key", base64(key)}};
  const json::object put{
      {"request_put", json::object{{"key", base64(key)}, {"value", base64(value)}}}};
  return {{"compare", json::array{missing}}, {"success", json::array{put}}};
}
json::object read(const std::string& key) { return {{"key", base64(key)}}; }

json::object put(const std::string& key, const std::string& lease) {
  return {{"key", base64(key)}, {"value", base64("1")}, {"lease", lease}};
}
std::string granted(EtcdServer& etcd, int life) {
  const Answer answer = etcd.post("lease/grant", {{"TTL", life}});
  REQUIRE_MESSAGE(answer.status == 200, answer.text);
  return answer.at("ID");
}

// The only key-value pair of an answer to a range.
json::object pair_of(const Answer& answer) {
  REQUIRE_MESSAGE(answer.status == 200, answer.text);
  REQUIRE_MESSAGE(answer.body.contains("kvs"), answer.text);
  REQUIRE(answer.body.at("kvs").as_array().size() == 1);
  return answer.body.at("kvs").as_array().at(0).as_object();
}

void check_refusal(const Answer& answer, int status, int code, const std::string& message) {
  CHECK(answer.status == status);
  CHECK(answer.at("message") == message);
  CHECK(answer.at("error") == message);
  REQUIRE_MESSAGE(answer.body.contains("code"), answer.text);
  CHECK(answer.body.at("code") == code);
}

TEST_SUITE("etcd contract: keys") {
  TEST_CASE("a range without a match has neither pairs nor a count") {
    const auto etcd = make_etcd();
    const Answer none = etcd->post("kv/range", read("/contract/none"));
    CHECK(none.status == 200);
    CHECK_FALSE(none.body.contains("kvs"));
    CHECK_FALSE(none.body.contains("count"));
    CHECK(none.body.at("header").at("revision").is_string());
  }

  TEST_CASE("a transaction creates a key once; a later one leaves the value and does not fail") {
    const auto etcd = make_etcd();
    const std::string key = "/contract/\"once\"/\xc3\xa9";
    const Answer first = etcd->post("kv/txn", create(key, "first"));
    REQUIRE_MESSAGE(first.status == 200, first.text);
    REQUIRE(first.body.contains("succeeded"));
    CHECK(first.body.at("succeeded") == true);
    CHECK(first.body.at("responses").as_array().size() == 1);

    const Answer second = etcd->post("kv/txn", create(key, "second"));
    CHECK(second.status == 200);
    CHECK_FALSE(second.body.contains("succeeded"));  // false is left out
    CHECK(second.body.at("header").at("revision") == first.body.at("header").at("revision"));

    const json::object pair = pair_of(etcd->post("kv/range", read(key)));
    CHECK(pair.at("key") == json::value(base64(key)));
    CHECK(pair.at("value") == json::value(base64("first")));
  }

  TEST_CASE("a pair has its revisions as text, and the version 1 until it is changed") {
    const auto etcd = make_etcd();
    const Answer made = etcd->post("kv/txn", create("/contract/numbers", "1"));
    const json::value& revision = made.body.at("header").at("revision");
    const json::object pair = pair_of(etcd->post("kv/range", read("/contract/numbers")));
    CHECK(pair.at("create_revision") == revision);
    CHECK(pair.at("mod_revision") == revision);
    CHECK(pair.at("version") == "1");
  }

  TEST_CASE("a key is not a prefix") {
    const auto etcd = make_etcd();
    REQUIRE(etcd->post("kv/txn", create("/contract/long/name", "1")).status == 200);
    CHECK_FALSE(etcd->post("kv/range", read("/contract/long")).body.contains("kvs"));
  }
}

TEST_SUITE("etcd contract: changes") {
  TEST_CASE("a transaction replaces a key that is of the revision that was read") {
    const auto etcd = make_etcd();
    const std::string key = "/contract/replaced";
    const auto replace = [&](const std::string& value, const std::string& revision) {
      const json::object unchanged{
          {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", revision}, {"key", base64(key)}};
      const json::object put{
          {"request_put", json::object{{"key", base64(key)}, {"value", base64(value)}}}};
      const Answer answer = etcd->post(
          "kv/txn", {{"compare", json::array{unchanged}}, {"success", json::array{put}}});
      REQUIRE_MESSAGE(answer.status == 200, answer.text);
      return answer.body.contains("succeeded");
    };
    CHECK(replace("one", "0"));
    CHECK_FALSE(replace("late", "0"));
    const json::object one = pair_of(etcd->post("kv/range", read(key)));
    const auto revision = json::value_to<std::string>(one.at("mod_revision"));
    CHECK(replace("two", revision));
    CHECK_FALSE(replace("three", revision));
    const json::object two = pair_of(etcd->post("kv/range", read(key)));
    CHECK(two.at("value") == json::value(base64("two")));
    CHECK(two.at("create_revision") == one.at("create_revision"));
    CHECK(two.at("version") == "2");
  }

  TEST_CASE("a range of keys is in their order, without values if they are not asked for") {
    const auto etcd = make_etcd();
    for (const char* key : {"/contract/range/b", "/contract/range/a", "/contract/range0"})
      REQUIRE(etcd->post("kv/put", {{"key", base64(key)}, {"value", base64("1")}}).status == 200);
    const Answer all = etcd->post("kv/range", {{"key", base64("/contract/range/")},
                                               {"range_end", base64("/contract/range0")},
                                               {"keys_only", true}});
    REQUIRE_MESSAGE(all.body.contains("kvs"), all.text);
    const json::array& pairs = all.body.at("kvs").as_array();
    REQUIRE(pairs.size() == 2);
    CHECK(pairs[0].at("key") == json::value(base64("/contract/range/a")));
    CHECK(pairs[1].at("key") == json::value(base64("/contract/range/b")));
    CHECK(pairs[0].at("create_revision").is_string());
    CHECK_FALSE(pairs[0].as_object().contains("value"));
  }

  TEST_CASE("an empty value is left out") {
    const auto etcd = make_etcd();
    REQUIRE(etcd->post("kv/put", {{"key", base64("/contract/empty")}, {"value", ""}}).status ==
            200);
    CHECK_FALSE(pair_of(etcd->post("kv/range", read("/contract/empty"))).contains("value"));
  }
}

TEST_SUITE("etcd contract: leases") {
  TEST_CASE("a key lives until its lease is revoked; to write it does not change its creation") {
    const auto etcd = make_etcd();
    const std::string lease = granted(*etcd, 60), key = "/contract/leased";
    REQUIRE(etcd->post("kv/put", put(key, lease)).status == 200);
    const json::object first = pair_of(etcd->post("kv/range", read(key)));
    REQUIRE(etcd->post("kv/put", put(key, lease)).status == 200);
    const json::object second = pair_of(etcd->post("kv/range", read(key)));
    CHECK(second.at("create_revision") == first.at("create_revision"));
    CHECK(second.at("mod_revision") != first.at("mod_revision"));
    CHECK(second.at("lease") == json::value(lease));
    const Answer kept = etcd->post("lease/keepalive", {{"ID", lease}});
    REQUIRE_MESSAGE(kept.body.contains("result"), kept.text);
    CHECK(kept.body.at("result").at("TTL") == "60");
    CHECK(pair_of(etcd->post("kv/range", read(key))).at("mod_revision") ==
          second.at("mod_revision"));
    REQUIRE(etcd->post("lease/revoke", {{"ID", lease}}).status == 200);
    CHECK_FALSE(etcd->post("kv/range", read(key)).body.contains("kvs"));
  }

  TEST_CASE("a key goes when nobody keeps its lease alive") {
    const auto etcd = make_etcd();
    const std::string key = "/contract/short";
    REQUIRE(etcd->post("kv/put", put(key, granted(*etcd, 2))).status == 200);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    while (etcd->post("kv/range", read(key)).body.contains("kvs")) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  TEST_CASE("a lease that has ended has no life left, and no key can be put under it") {
    const auto etcd = make_etcd();
    const Answer kept = etcd->post("lease/keepalive", {{"ID", "99"}});
    REQUIRE_MESSAGE(kept.status == 200, kept.text);
    CHECK(kept.body.at("result").at("ID") == "99");
    CHECK_FALSE(kept.body.at("result").as_object().contains("TTL"));
    check_refusal(etcd->post("kv/put", put("/contract/unleased", "99")), 404, 5,
                  "etcdserver: requested lease not found");
    check_refusal(etcd->post("lease/revoke", {{"ID", "99"}}), 404, 5,
                  "etcdserver: requested lease not found");
  }
}

TEST_SUITE("etcd contract: refusals") {
  TEST_CASE("a body that is cut off, or a key that is no base64, is refused with code 3") {
    const auto etcd = make_etcd();
    check_refusal(etcd->ask("POST", "/v3/kv/range", R"({"key":)"), 400, 3, "unexpected EOF");
    const Answer bad = etcd->post("kv/range", {{"key", "not base64!"}});
    CHECK(bad.status == 400);
    CHECK(bad.body.at("code") == 3);
    check_refusal(etcd->post("kv/range", {}), 400, 3, "etcdserver: key is not provided");
  }

  TEST_CASE("an unknown path or method is refused without JSON") {
    const auto etcd = make_etcd();
    const Answer path = etcd->post("kv/nothing", {});
    CHECK(path.status == 404);
    CHECK(path.body.empty());
    const Answer method = etcd->ask("GET", "/v3/kv/range", "");
    CHECK(method.status == 405);
    CHECK(method.body.empty());
  }

  TEST_CASE("a login is refused with code 9 while users are off") {
    const auto etcd = make_etcd();
    check_refusal(etcd->post("auth/authenticate", {{"name", "mesh"}, {"password", "any"}}), 412, 9,
                  "etcdserver: authentication is not enabled");
  }
}

TEST_SUITE("etcd contract: users") {
  TEST_CASE("a user logs in, and uses the key of its role with the token and no other key") {
    const auto etcd = make_etcd();
    etcd->enable_users("mesh", "pass\"word", "/contract/users");
    check_refusal(etcd->post("kv/range", read("/contract/users")), 400, 3,
                  "etcdserver: user name is empty");
    check_refusal(etcd->post("kv/txn", create("/contract/users", "1")), 400, 3,
                  "etcdserver: user name is empty");
    for (const auto& [user, password] : {std::pair("mesh", "wrong"), {"nobody", "pass\"word"}})
      check_refusal(etcd->post("auth/authenticate", {{"name", user}, {"password", password}}), 400,
                    3, "etcdserver: authentication failed, invalid user ID or password");
    const Answer login =
        etcd->post("auth/authenticate", {{"name", "mesh"}, {"password", "pass\"word"}});
    REQUIRE_MESSAGE(login.status == 200, login.text);
    const std::string token = login.at("token");
    REQUIRE_FALSE(token.empty());

    CHECK(etcd->post("kv/txn", create("/contract/users", "1"), token).body.contains("succeeded"));
    CHECK(pair_of(etcd->post("kv/range", read("/contract/users"), token)).at("value") ==
          json::value(base64("1")));
    check_refusal(etcd->post("kv/range", read("/contract/other"), token), 403, 7,
                  "etcdserver: permission denied");
    check_refusal(etcd->post("kv/txn", create("/contract/other", "1"), token), 403, 7,
                  "etcdserver: permission denied");
    check_refusal(etcd->post("kv/range", read("/contract/users"), "invented.7"), 401, 16,
                  "etcdserver: invalid auth token");

    etcd->disable_users();
    check_refusal(etcd->post("kv/range", read("/contract/users"), token), 401, 16,
                  "etcdserver: invalid auth token");
    CHECK(etcd->post("kv/range", read("/contract/users")).status == 200);
  }
}

}  // namespace
}  // namespace osm::contract
