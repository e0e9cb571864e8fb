// A board for replicas of one process: all see a text at once. It counts what it would write.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ads/readiness_table.hpp"

namespace osm::ads_test {

// Texts of ReadinessTable::kTopic, by replica.
struct Shared {
  std::map<std::string, std::string> said;
  int writes = 0;
  bool known = true;
};

class SharedBoard final : public ReplicaBoard {
 public:
  SharedBoard(Shared& shared, std::string name) : shared_(shared), name_(std::move(name)) {}
  Status publish(const std::string& topic, std::string text) override {
    CHECK(text.size() <= 100'000);
    if (topic != ads::ReadinessTable::kTopic) return {};
    shared_.said[name_] = std::move(text);
    ++shared_.writes;
    return {};
  }
  Result<std::map<std::string, std::string>> read(const std::string& topic) const override {
    if (!shared_.known) return Error{ErrorCode::kUnavailable, "nobody knows"};
    if (topic != ads::ReadinessTable::kTopic) return std::map<std::string, std::string>();
    return shared_.said;
  }
  Subscription subscribe(std::function<void()>) override { return {}; }
  bool leads() const override { return false; }
  Subscription stand(std::function<void()>) override { return {}; }

 private:
  Shared& shared_;
  const std::string name_;
};

}  // namespace osm::ads_test
