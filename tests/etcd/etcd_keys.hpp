// The keys of an etcd in memory, with their history.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "osm/clock.hpp"

namespace osm::etcd_test {

namespace json = boost::json;

// A key's value and its history in numbers.
struct Value {
  std::string base64;
  int create_revision = 0;
  int mod_revision = 0;
  int version = 0;
  std::string lease{};  // empty: none
};

// One change; without a value: the key was deleted.
struct Change {
  int revision = 0;
  std::string key;
  std::optional<Value> value;
};

struct Granted {
  std::chrono::seconds life;
  SteadyTime end;
};

// The keys of one cluster, shared by its members.
struct Keys {
  std::mutex mutex;
  std::map<std::string, Value> values;
  std::map<std::string, Granted> leases;
  int revision = 1;
  int granted = 0;
  std::vector<Change> history{};  // of revisions from `compacted` on
  int compacted = 0;
  std::function<SteadyTime()> now = std::chrono::steady_clock::now;

  // The rest: with `mutex` held.
  std::function<void()> meanwhile{};  // called once, before the next transaction
  void put(const std::string& key, std::string base64, std::string lease) {
    Value& value = values[key];
    value.base64 = std::move(base64);
    value.lease = std::move(lease);
    value.mod_revision = ++revision;
    if (++value.version == 1) value.create_revision = revision;
    history.push_back({revision, key, value});
  }
  bool remove(const std::string& key) {
    if (values.erase(key) == 0) return false;
    history.push_back({++revision, key, std::nullopt});
    return true;
  }
  // Everything before revision `at` is forgotten.
  void compact(int at) {
    compacted = at;
    std::erase_if(history, [&](const Change& change) { return change.revision < at; });
  }
  void revoke(const std::string& lease) {
    leases.erase(lease);
    std::vector<std::string> gone;
    for (const auto& [key, value] : values)
      if (value.lease == lease) gone.push_back(key);
    for (const std::string& key : gone) remove(key);
  }
  void end_leases() {
    for (auto at = leases.begin(); at != leases.end();) {
      const auto [id, lease] = *at++;
      if (now() >= lease.end) revoke(id);
    }
  }
};

// A pair as the gateway writes it.
inline json::object to_json(const std::string& key, const Value& value, bool keys_only = false) {
  json::object pair{{"key", base64(key)},
                    {"create_revision", std::to_string(value.create_revision)},
                    {"mod_revision", std::to_string(value.mod_revision)},
                    {"version", std::to_string(value.version)}};
  if (!keys_only && !value.base64.empty()) pair["value"] = value.base64;
  if (!value.lease.empty()) pair["lease"] = value.lease;
  return pair;
}
inline json::object to_json(const Change& change) {
  if (change.value) return {{"kv", to_json(change.key, *change.value)}};
  return {{"type", "DELETE"},
          {"kv", {{"key", base64(change.key)}, {"mod_revision", std::to_string(change.revision)}}}};
}

}  // namespace osm::etcd_test
